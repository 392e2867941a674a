"""The run as a process of its own, ended in good order whatever ends the demo."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Run:
    """While entered, a signal ends the followed process instead of this one; a second kills it.

    The process is in a session of its own, so that Ctrl+C reaches it once, through here.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped_by: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Run:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def follow(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        show: Callable[[bytes], None],
    ) -> int:
        """Run `command`, show each line of its output; its exit status.

        Raises `OSError` if it cannot be started, and what `show` raises, after its end.
        """
        process = self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if self._stopped_by is not None:  # while it was being started
            process.terminate()
        with process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    show(line)
            except BaseException:
                process.terminate()
                raise
        return process.returncode

    def status(self, code: int) -> int:
        """The exit status for `code`, or that of the signal which came."""
        if self._stopped_by is not None:
            return 128 + self._stopped_by
        return code if code >= 0 else 128 - code

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        again, self._stopped_by = self._stopped_by is not None, number
        if self._process is None:
            return
        # SIGTERM, because before the program listens it ends it without a trace of Python's.
        if again:
            self._process.kill()
        else:
            self._process.terminate()
