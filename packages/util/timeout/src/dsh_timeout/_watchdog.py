"""A bound on silence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import TypeVar

from dsh_cordis import AbortController, AbortSignal

from ._deadline import TimeoutReason, is_bounded

T = TypeVar("T")


class IdleWatchdog:
    """Aborts `signal` when one wait for a source takes longer than `ms` milliseconds.

    The time runs only while a wait is outstanding, so that a slow consumer never trips it.
    `signal` also follows `upstream`; the first abort owns the reason. `ms` of 0 or less, or
    infinity, bounds nothing. Dispose it, or use it as a context manager.
    """

    signal: AbortSignal
    """The same object for the watchdog's whole life."""

    def __init__(self, upstream: AbortSignal | None, ms: float, code: str) -> None:
        self._timer = AbortController()
        self._fused = self.signal = AbortSignal.any(upstream, self._timer.signal)
        self._reason = TimeoutReason(code, ms)
        self._bounded = is_bounded(ms)
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._waiting = False
        self._due = 0.0

    def waiting(self) -> _Wait:
        """A block (`async with`) in which one wait for the source is outstanding.

        Entering it raises `RuntimeError` while another wait is outstanding.
        """
        return _Wait(self)

    async def next(self, awaitable: Awaitable[T]) -> T:
        """Await `awaitable` as one outstanding wait. Does not cancel it when the time is up."""
        self._arm()
        try:
            return await awaitable
        finally:
            self._disarm()

    def pulse(self) -> None:
        """The source showed life without an item: the outstanding wait has its full time again."""
        self._due = self._loop.time() + self._reason.timeout_ms / 1000

    def dispose(self) -> None:
        """Stop the timer and let `upstream` go."""
        self._waiting = False
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._fused.release()

    def __enter__(self) -> IdleWatchdog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.dispose()

    def _arm(self) -> None:
        if self._waiting:
            raise RuntimeError("one wait at a time: the source is being waited for already")
        self._waiting = True
        if not self._bounded:
            return
        self.pulse()
        if self._handle is None:
            self._handle = self._loop.call_at(self._due, self._check)

    def _disarm(self) -> None:
        # The timer stays: a stream of thousands of items shares one instead of making one each.
        self._waiting = False

    def _check(self) -> None:
        self._handle = None
        if not self._waiting or self.signal.aborted:
            return
        if self._loop.time() < self._due:
            self._handle = self._loop.call_at(self._due, self._check)
        else:
            self._timer.abort(self._reason)


class _Wait:
    __slots__ = ("_watchdog",)

    def __init__(self, watchdog: IdleWatchdog) -> None:
        self._watchdog = watchdog

    async def __aenter__(self) -> None:
        self._watchdog._arm()  # noqa: SLF001 - the watchdog's other half

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._watchdog._disarm()  # noqa: SLF001 - the watchdog's other half
