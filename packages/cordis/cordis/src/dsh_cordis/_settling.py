"""Waiting for a fiber to come to rest, without becoming able to stop it or to deadlock on it."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
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
        while waiter is not None:
            if waiter is fiber and fiber.inertia is not None:
                raise self_wait("its own disposal or restart")
            waiter = waiter.parent
        yield from fiber.quiet().__await__()
        if fiber.uid is not None and fiber.error is not None:
            raise fiber.error


class OnlyFiber:
    """A target that admits the listeners of one fiber."""

    __slots__ = ("_fiber",)

    def __init__(self, fiber: Fiber) -> None:
        self._fiber = fiber

    def accepts(self, ctx: Context) -> bool:
        """Whether that fiber owns the listener."""
        return ctx.fiber is self._fiber


def inactive() -> CordisError:
    """For registering on a fiber that is disposed or unloading."""
    return CordisError("cannot create effect on inactive context", code="INACTIVE_EFFECT")


def self_wait(what: str) -> CordisError:
    """For a task awaiting something that waits for that very task."""
    return CordisError(f"a fiber cannot await {what}: request it and return", code="SELF_DISPOSAL")
