"""Listening and dispatching: the part of a context that deals with events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast, overload

from . import _events as modes
from ._events import EventTable, Listener
from ._internal import Internal
from ._keys import (
    AnyEventKey,
    Bail,
    Emit,
    EventKey,
    Next,
    NextSync,
    Parallel,
    Serial,
    SyncWaterfall,
    Target,
    Waterfall,
)

if TYPE_CHECKING:
    from ._context import Context
    from ._effects import Effect
    from ._fiber import Fiber

R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class EventBus:
    """Base of `Context`; what it registers belongs to `fiber`."""

    __slots__ = ("_events", "fiber")
    _events: EventTable
    fiber: Fiber
    """Owns what is registered through this context."""

    # -- listening --------------------------------------------------------------------------

    @overload
    def on(
        self,
        event: Waterfall[R, *Ts],
        listener: Callable[[*Ts, Next[R]], Awaitable[R]],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: SyncWaterfall[R, *Ts],
        listener: Callable[[*Ts, NextSync[R]], R],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Serial[R, *Ts],
        listener: Callable[[*Ts], Awaitable[R | None] | R | None],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Bail[R, *Ts],
        listener: Callable[[*Ts], R | None],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Emit[*Ts] | Parallel[*Ts],
        listener: Callable[[*Ts], Awaitable[object] | None],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    def on(
        self,
        event: AnyEventKey,
        listener: Callable[..., Any],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect:
        """Listen until this fiber unloads or the result is called.

        Listeners run in order of registration, the latest prepended first. An `unscoped` one hears
        dispatches to every target.
        """
        return self._listen(event, listener, prepend=prepend, unscoped=unscoped)

    @overload
    def once(
        self,
        event: Waterfall[R, *Ts],
        listener: Callable[[*Ts, Next[R]], Awaitable[R]],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def once(
        self,
        event: SyncWaterfall[R, *Ts],
        listener: Callable[[*Ts, NextSync[R]], R],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def once(
        self,
        event: Serial[R, *Ts],
        listener: Callable[[*Ts], Awaitable[R | None] | R | None],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def once(
        self,
        event: Bail[R, *Ts],
        listener: Callable[[*Ts], R | None],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    @overload
    def once(
        self,
        event: Emit[*Ts] | Parallel[*Ts],
        listener: Callable[[*Ts], Awaitable[object] | None],
        *,
        prepend: bool = ...,
        unscoped: bool = ...,
    ) -> Effect: ...
    def once(
        self,
        event: AnyEventKey,
        listener: Callable[..., Any],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect:
        """Listen to one dispatch; the listener is removed before it is called."""

        fired = False

        def first(*args: Any) -> Any:  # noqa: ANN401 - forwards whatever the event carries
            nonlocal fired
            if fired:  # a dispatch that began before the removal: pass on, as if it were not there
                return args[-1]() if around else None
            fired = True
            effect()
            return listener(*args)

        around = isinstance(event, Waterfall | SyncWaterfall)
        effect = self._listen(event, first, prepend=prepend, unscoped=unscoped)
        return effect

    def _listen(
        self, event: AnyEventKey, call: Callable[..., Any], *, prepend: bool, unscoped: bool
    ) -> Effect:
        fiber = self.fiber
        fiber.check_active()
        entry = self._events.entry(event)
        label = f'ctx.on("{event.name}")'
        if self._events.heard(Internal.LISTENER) and not event.name.startswith("internal/"):
            replacement = self.bail(Internal.LISTENER, event, call, prepend)
            if replacement is not None:
                effect = fiber.register(label)
                effect.attach(replacement)
                return effect
        listener = Listener(call, cast("Context", self), unscoped=unscoped)
        effect = fiber.register(label)
        entry.add(listener, prepend=prepend)
        if event is Internal.GET:
            fiber.kernel.services.invalidate()  # from here on each read is told
        effect.attach(lambda: entry.remove(listener))
        return effect

    # -- dispatching ------------------------------------------------------------------------

    def emit(self, event: Emit[*Ts], *args: *Ts, target: Target | None = None) -> None:
        """Call the listeners in order; a raising one stops the rest unless the key is contained.

        `target` decides who hears it; without one the key's own rule does, and without that all.
        """
        listeners = self._events.select(event, args, target)
        if listeners:
            modes.emit(event, listeners, args)

    def emission(
        self, event: Emit[*Ts], *args: *Ts, target: Target | None = None
    ) -> Callable[[], None]:
        """The two halves of `emit`: who hears it is settled now, calling the result tells them.

        Observers of dispatches are asked now, so that a refusal comes before what is told of.
        """
        return partial(modes.emit, event, self._events.select(event, args, target), args)

    def reaches(self, event: EventKey[*Ts], *args: *Ts, target: Target | None = None) -> bool:
        """Whether a dispatch would find a listener; observers of dispatches are not asked."""
        return bool(self._events.select(event, args, target, silent=True))

    async def parallel(
        self, event: Parallel[*Ts], *args: *Ts, target: Target | None = None
    ) -> None:
        """Run all listeners concurrently; raises one group of all failures."""
        await modes.parallel(event, self._events.select(event, args, target), args)

    async def serial(
        self, event: Serial[R, *Ts], *args: *Ts, target: Target | None = None
    ) -> R | None:
        """Await the listeners in order; the first result that is neither None nor False."""
        return await modes.serial(event, self._events.select(event, args, target), args)

    def bail(self, event: Bail[R, *Ts], *args: *Ts, target: Target | None = None) -> R | None:
        """Call the listeners in order; the first result that is neither None nor False."""
        return modes.bail(event, self._events.select(event, args, target), args)

    def waterfall(
        self,
        event: Waterfall[R, *Ts],
        *args: *Ts,
        inner: Next[R],
        target: Target | None = None,
    ) -> Coroutine[Any, Any, R]:
        """Run the listeners around `inner`, outermost first; await the outermost's result.

        Who takes part is settled by the call, before it is awaited.
        """
        # What the first listener returns is awaited by the caller: a coroutine of our own around
        # it would take a tenth of a dispatch.
        return modes.chain(self._events.select(event, args, target), args, inner)

    def waterfall_sync(
        self,
        event: SyncWaterfall[R, *Ts],
        *args: *Ts,
        inner: NextSync[R],
        target: Target | None = None,
    ) -> R:
        """Run the listeners around `inner` without awaiting; the outermost's result."""
        return modes.chain(self._events.select(event, args, target), args, inner)
