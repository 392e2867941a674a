"""Ending the process: once, in order, and within a bound."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

from dsh_cmdline import AppExit

if TYPE_CHECKING:
    from dsh_cordis import Context

SHUTDOWN_GRACE_S: Final = 5.0
"""How long plugins may take to unload before the process ends anyway."""

EXIT_HOOKS_S: Final = 1.0
"""How long the hooks of a forced exit may take."""


class Shutdown:
    """Coordinates who ends the process and with which code. The first code wins.

    Request, signal or failure begin the disposal of the root; a second signal ends at once.
    """

    def __init__(self, *, force: Callable[[int], object] | None = None) -> None:
        self.app_exit = AppExit(self.request)
        self.code: int | None = None
        self.forced = False
        """Whether the process must not linger after the disposal: a signal asked for the end."""
        self.grace_s = SHUTDOWN_GRACE_S
        """How long plugins may take to unload before the process ends anyway."""
        self._force = force or leave
        self._loop: asyncio.AbstractEventLoop | None = None
        self._root: Context | None = None
        self._requested: asyncio.Event | None = None

    def attach(self, root: Context) -> None:
        """Take responsibility for `root`, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._requested = asyncio.Event()
        self._root = root
        if self.code is not None:
            self._begin()

    def install_signal_handlers(self) -> None:
        """SIGINT ends with 130; SIGTERM with 0, or 143 while a one-shot turn is open.

        A terminal that closes (SIGHUP) ends with 129, unless the process was told to ignore it.
        """
        # Plain handlers: they work before the loop runs, after it is closed and while it is busy.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
            signal.signal(hangup, self._on_signal)

    def request(self, code: int, *, grace_s: float | None = None) -> None:
        """Begin to end with `code`; later calls do nothing. Returns at once, from any thread."""
        if self.code is not None:
            return
        self.code = code
        grace_s = self.grace_s if grace_s is None else grace_s
        deadline = threading.Timer(grace_s, self._end, args=(code,))
        deadline.daemon = True
        try:
            deadline.start()
        except (RuntimeError, MemoryError):
            # No thread is to be had, which may be why the end was asked for. The bound stays: the
            # alarm ends the process by the signal's own default.
            signal.setitimer(signal.ITIMER_REAL, grace_s)
        if self._loop is not None:
            # A loop that is closing has nothing left to dispose.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._begin)

    async def wait(self) -> int:
        """Wait for a request, then for the end of every plugin; the exit status."""
        assert self._requested is not None
        assert self._root is not None
        await self._requested.wait()
        await self._root.fiber.dispose()
        assert self.code is not None
        return self.code

    def _begin(self) -> None:
        assert self._root is not None
        assert self._requested is not None
        # The request alone starts the unloading; `wait` joins it.
        self._root.fiber.dispose()
        self._requested.set()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        code = 128 + number
        if number == signal.SIGTERM and not self.app_exit.one_shot_open:
            # Asked to stop and stopped: no work was lost.
            code = 0
        if self.code is not None:
            self._end(code)
            return
        self.forced = True
        self.request(code)

    def _end(self, code: int) -> None:
        # Without flushing: this runs in a signal handler or beside the main thread, which may be in
        # the middle of a write or blocked in one.
        self._force(code)


def leave(code: int) -> NoReturn:
    """End the process now, after the hooks for the exit of the host.

    `os._exit` alone would skip them, and with them the end of processes that plugins started. They
    run in a thread so that one that hangs cannot hold the process.
    """
    hooks = threading.Thread(target=atexit._run_exitfuncs, daemon=True)  # noqa: SLF001 - the interpreter offers no other way to run them
    try:
        hooks.start()
        hooks.join(EXIT_HOOKS_S)
    finally:
        # Also without a thread to be had.
        os._exit(code)


def flush_output() -> None:
    """Hand over what was printed; a reader that is gone is not a failure of ours."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
