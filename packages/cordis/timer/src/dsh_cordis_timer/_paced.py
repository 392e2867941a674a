"""Callables that run their callback less often than they are called."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec

if TYPE_CHECKING:
    from dsh_cordis import Context, Effect

P = ParamSpec("P")


class Paced(ABC, Generic[P]):
    """Base of throttled and debounced callables; they end with the plugin that made them."""

    def __init__(
        self,
        ctx: Context,
        delay_ms: float,
        callback: Callable[P, Awaitable[object] | None],
        *,
        label: str,
    ) -> None:
        self._ctx = ctx
        self._delay_s = delay_ms / 1000
        self._callback = callback
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._ended = False
        self._effect: Effect = ctx.effect(lambda: self._end, label)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Ask for a run with these arguments; does nothing after the end."""
        if not self._ended:
            self._called(args, kwargs)

    def dispose(self) -> None:
        """Drop what is waiting and run nothing any more."""
        self._effect()

    @abstractmethod
    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Somebody asked for a run."""

    @abstractmethod
    def _elapsed(self) -> None:
        """The delay is over."""

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._elapsed)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        run_owned(self._ctx, lambda: self._callback(*args, **kwargs))

    def _end(self) -> None:
        self._ended = True
        self._waiting = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Throttled(Paced[P]):
    """Runs on the first call, then at most once per delay, at last with the latest arguments."""

    def __init__(
        self,
        ctx: Context,
        delay_ms: float,
        callback: Callable[P, Awaitable[object] | None],
        *,
        trailing: bool,
    ) -> None:
        super().__init__(ctx, delay_ms, callback, label="ctx.throttle()")
        self._trailing = trailing

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._timer is None:
            self._arm()
            self._run(args, kwargs)
        elif self._trailing:
            self._waiting = (args, kwargs)

    def _elapsed(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._called(*waiting)


class Debounced(Paced[P]):
    """Runs once no call has come for the delay, with the latest arguments."""

    def __init__(
        self,
        ctx: Context,
        delay_ms: float,
        callback: Callable[P, Awaitable[object] | None],
    ) -> None:
        super().__init__(ctx, delay_ms, callback, label="ctx.debounce()")

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._waiting = (args, kwargs)
        if self._timer is not None:
            self._timer.cancel()
        self._arm()

    def _elapsed(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._run(*waiting)


def run_owned(ctx: Context, call: Callable[[], Awaitable[object] | None]) -> asyncio.Task[None]:
    """Run a callback in a task of `ctx`'s plugin, so that a failure is logged under its name."""

    async def callback() -> None:
        result = call()
        if result is not None:
            await result

    return ctx.spawn(callback, name="timer callback")
