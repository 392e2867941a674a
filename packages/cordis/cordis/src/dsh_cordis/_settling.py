"""Waiting for a fiber to come to rest, without becoming able to stop it or to deadlock on it."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from ._errors import CordisError
from ._kernel import CURRENT_FIBER

if TYPE_CHECKING:
    from ._context import Context
    from ._fiber import Fiber


class Settling(Awaitable[None]):
    """Waits until a fiber has come to rest; `None` is at rest already.

    Raises the startup error if a restart ended in one.
    """

    __slots__ = ("_fiber",)

    def __init__(self, fiber: Fiber | None) -> None:
        self._fiber = fiber

    def __await__(self) -> Generator[Any, None, None]:
        fiber = self._fiber
        if fiber is None:
            return
        waiter = CURRENT_FIBER.get()
        if waiter is not None and fiber.inertia is not None:
            _refuse_deadlock(fiber, waiter)
        yield from fiber.quiet().__await__()
        if fiber.uid is not None and fiber.error is not None:
            raise fiber.error


def owners(fiber: Fiber) -> Iterator[Fiber]:
    """Those that it is mounted below, the nearest first."""
    owner = fiber.parent
    while owner is not None:
        yield owner
        owner = owner.parent


def waiting_for(fiber: Fiber) -> set[Fiber]:
    """Every fiber whose end has to wait for the end of `fiber`, with itself.

    Those are its owners, the providers of what it holds, and likewise theirs.
    """
    found = {fiber}
    new = [fiber]
    while new:
        one = new.pop()
        above = {held.fiber for held in one.snapshot.values()}
        if one.parent is not None:
            above.add(one.parent)
        above -= found
        found |= above
        new.extend(above)
    return found


class OnlyFiber:
    """A target that admits the listeners of one fiber."""

    __slots__ = ("_fiber",)

    def __init__(self, fiber: Fiber) -> None:
        self._fiber = fiber

    def accepts(self, ctx: Context) -> bool:
        """Whether that fiber owns the listener."""
        return ctx.fiber is self._fiber


def _refuse_deadlock(fiber: Fiber, waiter: Fiber) -> None:
    if waiter is fiber or fiber in owners(waiter):
        raise self_wait("its own disposal or restart")
    if fiber.state is not fiber.state.UNLOADING or waiter.tasks.running():
        return  # tasks are stopped when their turn comes, and so is their waiting
    if fiber in waiting_for(waiter):
        raise self_wait("the end of what provides for it, from its body or cleanup")


def inactive() -> CordisError:
    """For registering on a fiber that is disposed or unloading."""
    return CordisError("cannot create effect on inactive context", code="INACTIVE_EFFECT")


def self_wait(what: str) -> CordisError:
    """For a task awaiting something that waits for that very task."""
    return CordisError(f"a fiber cannot await {what}: request it and return", code="SELF_DISPOSAL")
