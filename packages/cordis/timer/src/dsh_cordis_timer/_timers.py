"""The service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, ParamSpec, overload

from dsh_cordis import CordisError, NoConfig, Service, ServiceKey

from ._errors import TimerError
from ._paced import Debounced, Throttled, run_owned

if TYPE_CHECKING:
    from dsh_cordis import Context, Effect

P = ParamSpec("P")

TIMER = ServiceKey["Timers"]("timer")


class Timers(Service):
    """Timers that end with the plugin that starts them.

    Callbacks may be asynchronous; they run in tasks of the caller's plugin, and one that raises is
    logged under its name.
    """

    provides = TIMER
    Config = NoConfig
    name = "dsh-cordis-timer"

    def start(self) -> Effect:
        # For notebooks: `ctx.timeout(50)`. Read through the caller, so that it owns the timer.
        return self.ctx.mixin(TIMER, ("debounce", "interval", "throttle", "timeout"))

    @overload
    def timeout(self, delay_ms: float) -> asyncio.Future[None]: ...
    @overload
    def timeout(
        self, delay_ms: float, callback: Callable[[], Awaitable[object] | None]
    ) -> Effect: ...
    def timeout(
        self, delay_ms: float, callback: Callable[[], Awaitable[object] | None] | None = None
    ) -> asyncio.Future[None] | Effect:
        """Run `callback` once after `delay_ms`; the result cancels it.

        Without a callback: something to await, which raises TimerError when the plugin unloads.
        """
        ctx = self.ctx
        if callback is None:
            return _sleep(ctx, delay_ms, "ctx.timeout()")

        def fire() -> None:
            effect()
            run_owned(ctx, callback)

        def setup() -> Callable[[], None]:
            return asyncio.get_running_loop().call_later(delay_ms / 1000, fire).cancel

        effect = ctx.effect(setup, "ctx.timeout()")
        return effect

    @overload
    def interval(self, delay_ms: float) -> AsyncIterator[None]: ...
    @overload
    def interval(
        self, delay_ms: float, callback: Callable[[], Awaitable[object] | None]
    ) -> Effect: ...
    def interval(
        self, delay_ms: float, callback: Callable[[], Awaitable[object] | None] | None = None
    ) -> AsyncIterator[None] | Effect:
        """Run `callback` every `delay_ms`; the result stops it. A tick is skipped while the
        previous run goes on.

        Without a callback: an iterator that yields once per tick and raises TimerError when the
        plugin unloads.
        """
        if callback is None:
            return _ticks(self.ctx, delay_ms)
        ticker = _Ticker(self.ctx, delay_ms, callback)
        return self.ctx.effect(ticker.start, "ctx.interval()")

    def throttle(
        self,
        delay_ms: float,
        callback: Callable[P, Awaitable[object] | None],
        *,
        trailing: bool = True,
    ) -> Throttled[P]:
        """A callable that runs `callback` at once, then at most once per `delay_ms`.

        With `trailing`, calls that came too early lead to one more run with the latest arguments.
        """
        return Throttled(self.ctx, delay_ms, callback, trailing=trailing)

    def debounce(
        self, delay_ms: float, callback: Callable[P, Awaitable[object] | None]
    ) -> Debounced[P]:
        """A callable that runs `callback` once it has not been called for `delay_ms`."""
        return Debounced(self.ctx, delay_ms, callback)


class _Ticker:
    """One interval with a callback."""

    def __init__(
        self, ctx: Context, delay_ms: float, callback: Callable[[], Awaitable[object] | None]
    ) -> None:
        self._ctx = ctx
        self._delay_s = delay_ms / 1000
        self._callback = callback
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> Callable[[], None]:
        self._due = asyncio.get_running_loop().time()
        self._arm()
        return self.stop

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        # From the last due time, so that ticks do not drift; a late loop loses ticks instead of
        # running them in a burst.
        self._due = max(self._due + self._delay_s, loop.time())
        self._timer = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._arm()
        if self._running is None or self._running.done():
            self._running = run_owned(self._ctx, self._callback)


def _sleep(ctx: Context, delay_ms: float, label: str) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def setup() -> Callable[[], None]:
        timer = loop.call_later(delay_ms / 1000, _finish, future)

        def abandon() -> None:
            timer.cancel()
            if not future.done():
                future.set_exception(_disposed())

        return abandon

    effect = ctx.effect(setup, label)

    def over(_future: asyncio.Future[None]) -> None:
        effect()
        if not future.cancelled():
            future.exception()  # seen, whether or not anyone awaits it

    future.add_done_callback(over)
    return future


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _ticks(ctx: Context, delay_ms: float) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + delay_ms / 1000, loop.time())
        try:
            tick = _sleep(ctx, (due - loop.time()) * 1000, "ctx.interval()")
        except CordisError:  # the plugin is on its way out already
            raise _disposed() from None
        await tick
        yield


def _disposed() -> TimerError:
    return TimerError("Context has been disposed", code="DISPOSED")
