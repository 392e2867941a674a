"""The listener table and the rules of each dispatch mode.

Order is paid for at registration: a dispatch walks a ready tuple. Tuples are replaced, never
changed, so that a listener added during a dispatch is not called by it and one removed still is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ._errors import CordisError
from ._failures import FAILURES, STOPS, cancelled_from_outside, discard, failure_of, outcome
from ._keys import AnyEventKey, Bail, Emit, Parallel, Serial, SyncWaterfall, Target, Waterfall
from ._report import log_failure

if TYPE_CHECKING:
    from ._context import Context

_MAX_TARGETS: Final = 256
"""How many targets one event remembers the admitted listeners of."""

_MODES: Final[dict[type[AnyEventKey], str]] = {
    Emit: "emit",
    Parallel: "emit",
    Serial: "serial",
    Bail: "bail",
    Waterfall: "waterfall",
    SyncWaterfall: "waterfall",
}
"""What dispatch observers are told: they do not distinguish who waits."""


class Listener:
    """One registration of one callable."""

    __slots__ = ("call", "ctx", "unscoped")

    def __init__(self, call: Callable[..., Any], ctx: Context, *, unscoped: bool) -> None:
        self.call = call
        self.ctx = ctx
        self.unscoped = unscoped


class ListenerList:
    """The listeners of one event, the latest prepended first, then by registration."""

    __slots__ = ("_admitted", "_back", "_front", "mode", "ready")
    mode: type[AnyEventKey]
    ready: tuple[Listener, ...] | None
    """What `all` gives; None where that has to be put together first."""

    def __init__(self, mode: type[AnyEventKey]) -> None:
        self.mode = mode
        self._front: dict[Listener, None] = {}
        self._back: dict[Listener, None] = {}
        self.ready = ()
        self._admitted: dict[object, tuple[Listener, ...]] = {}

    def add(self, listener: Listener, *, prepend: bool) -> None:
        """Add at the end, or before everything else."""
        (self._front if prepend else self._back)[listener] = None
        self._changed()

    def remove(self, listener: Listener) -> None:
        """Remove; does nothing if it is not there."""
        self._front.pop(listener, None)
        self._back.pop(listener, None)
        self._changed()

    def all(self) -> tuple[Listener, ...]:
        """Every listener in order."""
        listeners = self.ready
        if listeners is None:
            listeners = self.ready = (*reversed(self._front), *self._back)
        return listeners

    def admitted(self, target: Target) -> tuple[Listener, ...]:
        """The listeners that a dispatch to `target` reaches."""
        token: object = getattr(target, "stable", None)
        if token is None:
            return self._filter(target)
        listeners = self._admitted.get(token)
        if listeners is None:
            if len(self._admitted) >= _MAX_TARGETS:
                self._admitted.clear()
            listeners = self._admitted[token] = self._filter(target)
        return listeners

    def _filter(self, target: Target) -> tuple[Listener, ...]:
        accepts = target.accepts
        return tuple(one for one in self.all() if one.unscoped or accepts(one.ctx))

    def _changed(self) -> None:
        self.ready = None
        if self._admitted:
            self._admitted.clear()


class EventTable:
    """Listeners by event name."""

    __slots__ = ("_lists", "observers")
    observers: ListenerList | None
    """Listeners of `internal/dispatch`, told of every dispatch that is not internal."""

    def __init__(self) -> None:
        self._lists: dict[str, ListenerList] = {}
        self.observers = None

    def entry(self, event: AnyEventKey) -> ListenerList:
        """The list of an event, made on first use. Raises CordisError on a change of mode."""
        entry = self._lists.get(event.name)
        if entry is None:
            entry = self._lists[event.name] = ListenerList(type(event))
            if event.name == "internal/dispatch":
                self.observers = entry
        elif entry.mode is not type(event):
            raise CordisError(
                f"event {event.name!r} is dispatched as {entry.mode.__name__}, "
                f"not as {type(event).__name__}: use the key its owner exports",
                code="EVENT_MODE",
            )
        return entry

    def select(
        self,
        event: AnyEventKey,
        args: tuple[Any, ...],
        target: Target | None,
        *,
        silent: bool = False,
    ) -> tuple[Listener, ...]:
        """The listeners of one dispatch, after telling the dispatch observers (unless `silent`)."""
        if target is None and event.scoped is not None:
            target = event.scoped(*args)
        if self.observers is not None and not silent:
            self._tell(self.observers, event, args, target)
        entry = self._lists.get(event.name)
        if entry is None:
            return ()
        if target is not None:
            return entry.admitted(target)
        listeners = entry.ready
        return entry.all() if listeners is None else listeners

    def _tell(
        self,
        observers: ListenerList,
        event: AnyEventKey,
        args: tuple[Any, ...],
        target: Target | None,
    ) -> None:
        if not event.name.startswith("internal/"):
            for observer in observers.all():
                observer.call(_MODES[type(event)], event.name, args, target)

    def heard(self, event: AnyEventKey) -> bool:
        """Whether anyone listens."""
        entry = self._lists.get(event.name)
        return entry is not None and bool(entry.all())


def emit(event: AnyEventKey, listeners: tuple[Listener, ...], args: tuple[Any, ...]) -> None:
    """Call in order; results of asynchronous listeners become tasks of the listeners' fibers."""
    if event.contained:
        emit_contained(event, listeners, args)
        return
    for listener in listeners:
        try:
            result = listener.call(*args)
        except STOPS as error:
            # Let through, it would end the emitter's task, or the process, without a word.
            raise CordisError(
                f"a listener of {event.name!r} raised {error!r}", code="LISTENER_STOPPED"
            ) from error
        if result is not None and inspect.isawaitable(result):
            _own(event, listener, result)


def emit_contained(
    event: AnyEventKey, listeners: tuple[Listener, ...], args: tuple[Any, ...]
) -> None:
    """Like `emit`, with a raising listener logged and skipped."""
    for listener in listeners:
        try:
            result = listener.call(*args)
        except FAILURES as error:  # containment: observers of this event are independent
            _log_listener(event, listener, error)
            continue
        if result is not None and inspect.isawaitable(result):
            _own(event, listener, result)


def _own(event: AnyEventKey, listener: Listener, result: Awaitable[object]) -> None:
    listener.ctx.fiber.tasks.own(result, name=f"listener of {event.name}")


def _log_listener(event: AnyEventKey, listener: Listener, error: BaseException) -> None:
    log_failure(listener.ctx.fiber, f"listener of {event.name}", error)


async def parallel(
    event: AnyEventKey, listeners: tuple[Listener, ...], args: tuple[Any, ...]
) -> None:
    """Run all concurrently; then raise every failure as one group."""
    errors: list[BaseException] = []
    failed: list[Listener] = []
    pending: list[tuple[Listener, Awaitable[object]]] = []
    for listener in listeners:
        try:
            result = listener.call(*args)
        except FAILURES as error:  # containment: all run, the failures are raised below
            errors.append(failure_of(error))
            failed.append(listener)
            continue
        if result is not None and inspect.isawaitable(result):
            pending.append((listener, result))
    if pending:
        results = await asyncio.gather(*(_outcome(one) for _, one in pending))
        for (listener, _), result in zip(pending, results, strict=True):
            if result is not None:
                errors.append(result)
                failed.append(listener)
    if not errors:
        return
    if event.contained:
        for listener, error in zip(failed, errors, strict=True):
            _log_listener(event, listener, error)
        return
    raise BaseExceptionGroup(f"listeners of {event.name} failed", errors)


def _outcome(work: Awaitable[object]) -> asyncio.Future[BaseException | None]:
    task = asyncio.ensure_future(outcome(work))
    task.add_done_callback(lambda _task: discard(work))  # cancelled, it may never have begun
    return task


async def serial(event: AnyEventKey, listeners: tuple[Listener, ...], args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the key types it where it is called
    """Await in order until the first result that is neither None nor False."""
    for listener in listeners:
        try:
            result = listener.call(*args)
            if result is None or result is False:
                continue
            if inspect.isawaitable(result):
                result = await result
        except FAILURES as error:
            if not event.contained or (isinstance(error, STOPS) and cancelled_from_outside()):
                raise
            _log_listener(event, listener, error)
            continue
        if result is not None and result is not False:
            return result
    return None


def bail(event: AnyEventKey, listeners: tuple[Listener, ...], args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the key types it where it is called
    """Call in order until the first result that is neither None nor False."""
    for listener in listeners:
        try:
            result = listener.call(*args)
        except FAILURES as error:
            if not event.contained:
                raise
            _log_listener(event, listener, error)
            continue
        if result is not None and result is not False:
            return result
    return None


class Chain:
    """A waterfall under way: each call runs one more listener, at last `inner`.

    Not a closure, which would refer to itself and leave each dispatch to the collector; not a bound
    method, which would be made anew at each step; and without `__init__`, whose call takes as long
    as a step.
    """

    __slots__ = ("args", "inner", "rest")
    rest: Iterator[Listener]
    args: tuple[Any, ...]
    inner: Callable[[], Any]

    def __call__(self) -> Any:  # noqa: ANN401 - the key types it where it is called
        """The rest of the waterfall."""
        for listener in self.rest:  # one step of it: quicker than `next` with a default
            return listener.call(*self.args, self)
        return self.inner()


class PayloadChain:
    """The same for one argument, as product events have: nothing is unpacked at each step."""

    __slots__ = ("inner", "payload", "rest")
    rest: Iterator[Listener]
    payload: Any
    inner: Callable[[], Any]

    def __call__(self) -> Any:  # noqa: ANN401 - the key types it where it is called
        """The rest of the waterfall."""
        for listener in self.rest:
            return listener.call(self.payload, self)
        return self.inner()


def chain(listeners: tuple[Listener, ...], args: tuple[Any, ...], inner: Callable[[], Any]) -> Any:  # noqa: ANN401 - the key types it where it is called
    """Start a waterfall: the result of its first listener, or of `inner` if there is none."""
    if not listeners:
        return inner()
    if len(args) != 1:
        rest = Chain()
        rest.args = args
    else:
        rest = PayloadChain()
        rest.payload = args[0]
    rest.rest = iter(listeners)
    rest.inner = inner
    return rest()
