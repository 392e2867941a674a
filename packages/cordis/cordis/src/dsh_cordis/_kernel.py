"""What every context of one tree shares: event listeners, services, and how tasks are started."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import CordisError
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


async def outcome(work: Awaitable[object]) -> BaseException | None:
    """Await foreign work and return what it raised.

    A cancellation of the running task itself passes through; a CancelledError that the work brought
    up on its own (it awaited something that was cancelled) is a failure like any other.
    """
    try:
        await work
    except asyncio.CancelledError as error:
        if cancelled_from_outside():
            raise
        return error
    except (Exception, SystemExit) as error:  # noqa: BLE001 - containment: the caller decides what a failure means
        return failure_of(error)
    return None


def failure_of(error: BaseException) -> BaseException:
    """What is kept of `error`: an exit is a failure of the plugin, not the end of the process.

    Raised again later, it would end the process from inside whoever waits.
    """
    if not isinstance(error, SystemExit):
        return error
    failure = CordisError(f"it tried to exit the process ({error})", code="PLUGIN_EXIT")
    failure.__cause__ = error
    return failure


def cancelled_from_outside() -> bool:
    """Whether someone asked to cancel the running task.

    False for a CancelledError that came up because the task awaited something cancelled: that is a
    failure like any other.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def combined(message: str, errors: list[BaseException]) -> BaseException:
    """The only error, or a group of several."""
    return errors[0] if len(errors) == 1 else BaseExceptionGroup(message, errors)
