"""What every context of one tree shares: event listeners, services, and how tasks are started."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from ._events import EventTable
from ._registry import Registry
from ._report import log_failure
from ._services import ServiceTable

if TYPE_CHECKING:
    from ._fiber import Fiber

T = TypeVar("T")

CURRENT_FIBER: contextvars.ContextVar[Fiber | None] = contextvars.ContextVar(
    "dsh_cordis_fiber", default=None
)
"""The fiber that owns the running task; unset outside of tasks that the kernel started."""


def current_fiber() -> Fiber | None:
    """The fiber that owns the running task; None in a task that the kernel did not start."""
    return CURRENT_FIBER.get()


class Kernel:
    """The shared state of one context tree, made by its root."""

    __slots__ = ("_base", "_next_uid", "events", "registry", "services")
    events: EventTable
    registry: Registry
    services: ServiceTable

    def __init__(self) -> None:
        # Tasks start from the context variables of whoever made the root: a plugin mounted from
        # inside one agent's turn must not inherit that agent's variables.
        self._base = contextvars.copy_context()
        self._next_uid = 0
        self.events = EventTable()
        self.services = ServiceTable(self.events)
        self.registry = Registry(self.services)

    def uid(self) -> int:
        """The next fiber number; the root has 0."""
        uid = self._next_uid
        self._next_uid += 1
        return uid

    def start(self, work: Coroutine[Any, Any, T], *, fiber: Fiber, name: str) -> asyncio.Task[T]:
        """Start a task that `fiber` owns. Raises RuntimeError without a running loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            work.close()
            raise
        context = self._base.copy()
        context.run(CURRENT_FIBER.set, fiber)
        # Not loop.create_task: a host may have installed an eager task factory, and then "one tick
        # later" would no longer hold.
        return asyncio.Task(work, loop=loop, name=name, context=context)


class Completion(Awaitable[Any]):
    """Waits for a task without owning it: a cancelled waiter leaves the task running.

    A failure nobody waited for is logged with its owner.
    """

    __slots__ = ("_claimed", "_owner", "_task")

    def __init__(self, task: asyncio.Task[Any], owner: Fiber) -> None:
        self._task = task
        self._owner = owner
        self._claimed = False
        task.add_done_callback(self._report)

    def claim(self) -> None:
        """Promise to await it later: its failure is not logged."""
        self._claimed = True

    def __await__(self) -> Generator[Any, None, Any]:
        self._claimed = True
        if not self._task.done():
            yield from asyncio.wait({self._task}).__await__()
        return self._task.result()

    def _report(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._claimed:
            log_failure(self._owner, task.get_name(), error)
