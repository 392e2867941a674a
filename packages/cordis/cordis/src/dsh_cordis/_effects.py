"""Effects: one registration and how it is undone, nested, rolled back and waited for."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from ._failures import (
    FAILURES,
    combined,
    endured,
    failure_of,
    outcome,
    outlive,
    plugin_failure,
)
from ._kernel import Completion
from ._keys import Disposer
from ._report import log_failure

if TYPE_CHECKING:
    from ._fiber import Fiber

EffectResult: TypeAlias = (
    Disposer
    | Awaitable[Disposer | None]
    | Iterator[Disposer | None]
    | AsyncIterator[Disposer | None]
    | None
)
"""What a plugin body or an effect may return: nothing, a disposer, or (async) several of them."""


class EffectInfo(msgspec.Struct, frozen=True):
    """One node of a fiber's tree of live effects."""

    label: str
    children: tuple[EffectInfo, ...]


class _Phase(Enum):
    SETUP = 0
    LIVE = 1
    CLEANING = 2
    GONE = 3


class HasEffect:
    """Something that stands for an effect when a body returns or yields it."""

    __slots__ = ("mounted",)
    mounted: Effect | None


class Effect:
    """A registration. Calling it undoes it once; awaiting it waits for an asynchronous setup.

    Inside one effect the disposers run in reverse order, strictly one after another. Cleanup stays
    synchronous as long as every disposer is; otherwise the call returns an awaitable, and the
    cleanup finishes whether or not anyone awaits it.
    """

    __slots__ = (
        "_cleanup",
        "_phase",
        "_requested",
        "_setup",
        "disposers",
        "fiber",
        "label",
        "outer",
    )
    fiber: Fiber
    outer: Effect | None
    """The effect that this one moved into."""
    disposers: list[Disposer]
    """What is to be undone, in order of registration."""
    label: str

    def __init__(self, fiber: Fiber, label: str) -> None:
        self.fiber = fiber
        self.label = label
        self.disposers = []
        self._phase = _Phase.SETUP
        self._requested = False
        self.outer = None
        self._setup: tuple[asyncio.Task[None], Completion] | None = None
        self._cleanup: asyncio.Task[None] | None = None

    # -- using ------------------------------------------------------------------------------

    def __call__(self) -> Awaitable[None] | None:
        """Undo. A second call does nothing and returns None."""
        if self._requested:
            return None
        self._requested = True
        return self._begin()

    def __await__(self) -> Generator[Any, None, Effect]:
        """Wait for an asynchronous setup; raises what it raised. Returns the effect."""
        if self._setup is not None:
            yield from self._setup[1].__await__()
        return self

    def join(self) -> Awaitable[None] | None:
        """Undo, or wait for the undoing that someone else started. For structural owners."""
        if not self._requested:
            pending = self()
            if isinstance(pending, Completion):
                pending.claim()
            return pending
        running = self._cleanup or (self._setup[0] if self._setup is not None else None)
        if running is None or running.done():
            return None
        joined = Completion(running, self.fiber)
        joined.claim()
        return joined

    def info(self) -> EffectInfo:
        """The effect and the effects that moved into it."""
        inner = (d.info() for d in self.disposers if isinstance(d, Effect))
        return EffectInfo(self.label, tuple(inner))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to undo."""
        return not self.disposers

    # -- setting up -------------------------------------------------------------------------

    def attach(self, disposer: Disposer) -> None:
        """Complete a synchronous setup that needs exactly this undone."""
        self.disposers.append(disposer)
        self._phase = _Phase.LIVE

    def open(self, execute: Callable[[], EffectResult]) -> None:
        """Run the setup; what is asynchronous about it goes on in a task of the owner."""
        try:
            pending = self._collect(execute())
            if pending is not None:
                task = self.fiber.kernel.start(
                    self._open_later(pending), fiber=self.fiber, name=f"effect {self.label}"
                )
                self._setup = (task, Completion(task, self.fiber))
                return
        except BaseException:
            self._roll_back()
            raise
        self._phase = _Phase.LIVE
        if self._requested:
            self._begin()

    async def open_here(self, execute: Callable[[], EffectResult]) -> BaseException | None:
        """Run a setup in the calling task and return its failure; the owner undoes the rest."""
        try:
            pending = self._collect(execute())
        except BaseException as error:  # noqa: BLE001 - containment: a body that fails fails its fiber
            failure = plugin_failure(error)
        else:
            failure = None if pending is None else await endured(self._drive(pending))
        await outlive()
        self._phase = _Phase.LIVE
        return failure

    def _collect(self, result: EffectResult) -> Awaitable[Any] | AsyncIterator[Any] | None:
        """Take the disposers that are there now; return what has to be awaited for the others."""
        if result is None or isinstance(result, Effect | HasEffect) or callable(result):
            self._take(result)
            return None
        if isinstance(result, AsyncIterator):
            return cast("AsyncIterator[Any]", result)
        if isinstance(result, Iterator):
            self._pull(cast("Iterator[Any]", result))
            return None
        if inspect.isawaitable(result):
            return result
        raise TypeError("Invalid effect")

    def _pull(self, disposers: Iterator[Any]) -> None:
        try:
            for disposer in disposers:
                self._take(disposer)
        finally:
            close = getattr(disposers, "close", None)
            if close is not None:
                close()

    def _take(self, disposer: object) -> None:
        if isinstance(disposer, HasEffect):
            disposer = disposer.mounted
        if disposer is None:
            return
        if disposer is self:
            raise TypeError("Invalid effect")  # it would wait for itself
        if isinstance(disposer, Effect):
            # Yielding the exact disposer orders it here; a wrapper of it stays a sibling.
            if disposer.fiber is self.fiber and disposer.fiber.release(disposer):
                disposer.outer = self
        elif not callable(disposer):
            raise TypeError("Invalid effect")
        self.disposers.append(cast("Disposer", disposer))

    async def _open_later(self, pending: Awaitable[Any] | AsyncIterator[Any]) -> None:
        failure = await endured(self._drive(pending))
        if failure is None and not self._requested:
            self._phase = _Phase.LIVE
            return
        self._requested = True
        self._phase = _Phase.CLEANING
        errors: list[BaseException] = []
        await self._unwind_rest(self._unwind(errors), errors)
        self._end()
        if failure is None and errors:
            raise combined(f"cleanup of {self.label} failed", errors)
        for error in errors:
            log_failure(self.fiber, f"rollback of {self.label}", error)
        if failure is not None:
            raise failure

    async def _drive(self, pending: Awaitable[Any] | AsyncIterator[Any]) -> None:
        if not isinstance(pending, AsyncIterator):
            self._take(await pending)
            return
        try:
            async for disposer in pending:
                self._take(disposer)
                if self._requested or self.fiber.unwanted:
                    break
        finally:
            close = getattr(pending, "aclose", None)
            if close is not None:
                await close()

    # -- undoing ----------------------------------------------------------------------------

    def _begin(self) -> Awaitable[None] | None:
        if self._phase is _Phase.SETUP:
            # A synchronous setup undoes itself when it returns; an asynchronous one in its task.
            return None if self._setup is None else self._setup[1]
        self._phase = _Phase.CLEANING
        errors: list[BaseException] = []
        pending = self._unwind(errors)
        if pending is not None:
            self._cleanup = self.fiber.kernel.start(
                self._close_later(pending, errors),
                fiber=self.fiber,
                name=f"cleanup of {self.label}",
            )
            return Completion(self._cleanup, self.fiber)
        self._end()
        if errors:
            raise combined(f"cleanup of {self.label} failed", errors)
        return None

    def _roll_back(self) -> None:
        self._requested = True
        self._phase = _Phase.CLEANING
        errors: list[BaseException] = []
        pending = self._unwind(errors)
        if pending is not None:
            self._cleanup = self.fiber.kernel.start(
                self._close_later(pending, errors),
                fiber=self.fiber,
                name=f"rollback of {self.label}",
            )
            Completion(self._cleanup, self.fiber)
            return
        self._end()
        for error in errors:
            log_failure(self.fiber, f"rollback of {self.label}", error)

    async def _close_later(self, pending: Awaitable[None], errors: list[BaseException]) -> None:
        await self._unwind_rest(pending, errors)
        self._end()
        if errors:
            raise combined(f"cleanup of {self.label} failed", errors)

    def _unwind(self, errors: list[BaseException]) -> Awaitable[None] | None:
        """Run disposers in reverse order up to the first that has to be awaited."""
        while self.disposers:
            disposer = self.disposers.pop()
            try:
                pending = disposer.join() if isinstance(disposer, Effect) else disposer()
            except FAILURES as error:  # containment: later disposers still run
                errors.append(failure_of(error))
                continue
            if inspect.isawaitable(pending):
                return pending
        return None

    async def _unwind_rest(
        self, pending: Awaitable[None] | None, errors: list[BaseException]
    ) -> None:
        await outlive()  # a plain disposer asked the task to end: not the next one's fault
        while pending is not None:
            failure = await endured(pending)
            if failure is not None:
                errors.append(failure)
            pending = self._unwind(errors)
            await outlive()

    def forget(self) -> None:
        """Leave the owner without running anything: what was to be undone is gone already."""
        self._requested = True
        self.disposers.clear()
        if self._phase is not _Phase.CLEANING:
            self._end()

    def _end(self) -> None:
        self._phase = _Phase.GONE
        outer = self.outer
        if outer is None:
            self.fiber.release(self)
        elif self in outer.disposers:
            outer.disposers.remove(self)


async def undo_all(fiber: Fiber, effects: tuple[Effect, ...]) -> None:
    """Undo what `fiber` holds, whatever of it fails, and wait for the end.

    Begun in reverse order; the asynchronous ones run in tasks of their own and overlap. Called
    again after a cancellation, it waits for what goes on.
    """
    waits: list[tuple[Effect, Awaitable[None]]] = []
    for effect in reversed(effects):
        try:
            pending = effect.join()
        except FAILURES as error:  # containment: a failing teardown does not stop its peers
            log_failure(fiber, f"cleanup of {effect.label}", error)
            continue
        if pending is not None:
            waits.append((effect, pending))
    await outlive()  # one of them may have asked this very task to end
    for effect, pending in waits:
        failure = await outcome(pending)
        if failure is not None:
            log_failure(fiber, f"cleanup of {effect.label}", failure)
