"""One bound on a whole piece of work."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from dsh_cordis import AbortController, AbortSignal


class TimeoutReason(msgspec.Struct, frozen=True):
    """The reason of a signal that a timer aborted; `code` says whose timer it was."""

    code: str
    timeout_ms: float

    def __str__(self) -> str:
        return f"{self.code} after {self.timeout_ms:g} ms"


def timeout_of(signal: AbortSignal, code: str) -> TimeoutReason | None:
    """The reason of `signal` if the timer with exactly this `code` aborted it, else None."""
    reason = signal.reason
    if signal.aborted and isinstance(reason, TimeoutReason) and reason.code == code:
        return reason
    return None


@contextmanager
def deadline(upstream: AbortSignal | None, ms: float, code: str) -> Generator[AbortSignal]:
    """A signal that aborts with `upstream`, or with a `TimeoutReason` `ms` milliseconds from now.

    The first of both owns the reason. `ms` of 0 or less, or infinity, sets no timer. Needs a
    running event loop. After the block neither is followed any more.
    """
    timer = AbortController()
    handle = None
    if is_bounded(ms):
        loop = asyncio.get_running_loop()
        handle = loop.call_later(ms / 1000, timer.abort, TimeoutReason(code, ms))
    try:
        with AbortSignal.any(upstream, timer.signal) as signal:
            yield signal
    finally:
        if handle is not None:
            handle.cancel()


def is_bounded(ms: float) -> bool:
    """Whether `ms` asks for a timer at all."""
    if math.isnan(ms):
        raise ValueError("a timeout cannot be NaN")
    return 0 < ms < math.inf
