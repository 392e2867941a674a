"""Noticing a plugin that holds up the event loop while it starts."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias

from ._errors import BootError

if TYPE_CHECKING:
    from dsh_cordis_loader import Loader

Blocked: TypeAlias = Callable[[tuple[str, ...], str], None]
"""Hears, in another thread, which rows were starting and what to say of it."""

_ANSWER_S: Final = 1.0
"""How long a loop that is not held up may take to answer."""


ACTIVATION_TIMEOUT_MS: Final = 30_000
"""How long a row may take to become active."""

TIMEOUT_VARIABLE: Final = "DSH_ACTIVATION_TIMEOUT_MS"


def activation_timeout_ms(environ: Mapping[str, str]) -> int:
    """How long a row may take to become active: `DSH_ACTIVATION_TIMEOUT_MS`, or 30 s.

    Raises BootError (`INVALID_TIMEOUT`) unless the variable is a positive whole number.
    """
    text = environ.get(TIMEOUT_VARIABLE, "").strip()
    if not text:
        return ACTIVATION_TIMEOUT_MS
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise BootError(
            f"{TIMEOUT_VARIABLE} is {text!r}; set it to whole milliseconds above 0, or not at all",
            code="INVALID_TIMEOUT",
        )
    return int(text)


class Watchdog:
    """For the block that it surrounds: tells `blocked` when the loop stands still for `timeout_ms`.

    What waits asynchronously can be given up from the loop; an import or a body that never gives
    control back can only be named from another thread.
    """

    def __init__(self, loader: Loader, timeout_ms: int, blocked: Blocked | None) -> None:
        self._loader = loader
        self._timeout_s = min(timeout_ms / 1000, threading.TIMEOUT_MAX)
        self._blocked = blocked
        self._over = threading.Event()

    def __enter__(self) -> None:
        if self._blocked is None:
            return
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(
            target=self._watch, args=(loop, thread, self._blocked), daemon=True, name="dsh watchdog"
        ).start()

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._over.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int, blocked: Blocked) -> None:
        while not self._over.wait(self._timeout_s):
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # the loop is closed
            if not answered.wait(_ANSWER_S) and not self._over.is_set():
                starting = self._loader.starting
                blocked(starting, self._describe(starting, thread))
                return

    def _describe(self, starting: tuple[str, ...], thread: int) -> str:
        rows = " or ".join(map(repr, starting))
        what = f"row {rows} has held up the start" if rows else "the start has been held up"
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - the interpreter's only way to look at another thread
        at = "" if frame is None else f" (at {_place(frame)})"
        return f"{what} for {self._timeout_s:g} s{at}"


def _place(frame: FrameType) -> str:
    """The innermost line of a plugin: what it called in the standard library says little."""
    library = sysconfig.get_path("stdlib")
    found: FrameType | None = frame
    while found is not None:
        file = found.f_code.co_filename
        if not file.startswith((library, "<")) or "site-packages" in file:
            return f"{file}:{found.f_lineno}"
        found = found.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
