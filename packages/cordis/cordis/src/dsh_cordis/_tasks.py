"""The background tasks of one fiber: started by plugins, stopped and awaited by its unload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import CordisError
from ._failures import FAILURES, discard, failure_of, outlive, plugin_failure
from ._report import log, log_failure

if TYPE_CHECKING:
    import anyio

    from ._fiber import Fiber

T = TypeVar("T")

STOP_WARNING_S = 5.0
"""How long an unload waits for tasks before it names them in the log, and goes on waiting."""


class _Spawned:
    """One task, with the way to stop it."""

    __slots__ = ("_scope", "_stop", "_stopping", "task")
    task: asyncio.Task[Any]

    def __init__(self, stop: Callable[[], object] | None) -> None:
        self._stop = stop
        self._scope: anyio.CancelScope | None = None
        self._stopping = False

    async def run(self, fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T | None:
        if self._stopping:
            return None
        import anyio  # the backend is slow to import, and booting starts no tasks

        with anyio.CancelScope() as self._scope:
            try:
                return await fn(*args)
            except (Exception, asyncio.CancelledError, GeneratorExit):
                raise
            except BaseException as error:  # let through, it could end the loop and all in it
                failure = plugin_failure(error)
                if failure is error:
                    raise
                raise failure from error
        return None

    def stop(self, owner: Fiber) -> None:
        """Ask it to end: through its own `stop` if it has one, else by cancelling its scope."""
        if self._stop is not None:
            try:
                self._stop()
            except FAILURES as error:  # containment: then it is cancelled like others
                log_failure(owner, f"stop of {self.task.get_name()}", error)
            else:
                return
        self._stopping = True
        if self._scope is not None:
            self._scope.cancel()


class TaskSet:
    """The tasks of one fiber."""

    __slots__ = ("_fiber", "_live")

    def __init__(self, fiber: Fiber) -> None:
        self._fiber = fiber
        self._live: dict[asyncio.Task[Any], _Spawned] = {}

    def spawn(
        self,
        fn: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
        *,
        stop: Callable[[], object] | None = None,
        name: str | None = None,
    ) -> asyncio.Task[T | None]:
        """Start `fn(*args)`; a failure is logged and leaves its siblings alone."""
        self._fiber.check_active()
        label = name or getattr(fn, "__name__", None) or "task"
        spawned = _Spawned(stop)
        task = self._fiber.kernel.start(spawned.run(fn, args), fiber=self._fiber, name=label)
        spawned.task = task
        self._live[task] = spawned
        task.add_done_callback(self._ended)
        return task

    def own(self, work: Awaitable[object], *, name: str) -> None:
        """Run what an asynchronous listener returned; dropped if the fiber is on its way out."""

        async def run() -> None:
            await work

        try:
            task = self.spawn(run, (), name=name)
        except CordisError:
            discard(work)
        else:
            task.add_done_callback(lambda _task: discard(work))  # it may never have begun

    def running(self) -> bool:
        """Whether the running task is one of these."""
        return asyncio.current_task() in self._live

    async def stop_all(self) -> None:
        """Stop every task and wait until the last has ended."""
        waiting = set(self._live)
        if not waiting:
            return
        for task in waiting:
            self._live[task].stop(self._fiber)
        await outlive()  # a function that stops may have asked this very task to end
        _, late = await asyncio.wait(waiting, timeout=STOP_WARNING_S)
        if late:
            names = ", ".join(sorted(task.get_name() for task in late))
            owner = self._fiber.name
            log.warning("%r still waits for: %s", owner, names, extra={"fiber": owner})
            await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._live.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log_failure(self._fiber, task.get_name(), error)


class Hosted:
    """A context manager that one task of the fiber enters and leaves.

    Anything that holds a cancel scope or a task group has to be left by the task that entered it,
    and a fiber loads and unloads in different ones.
    """

    __slots__ = ("_close", "_fiber", "_ready", "_task")

    def __init__(self, fiber: Fiber) -> None:
        self._fiber = fiber
        self._close = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def enter(self, cm: AbstractAsyncContextManager[T], *, name: str) -> T:
        """The value of `cm`; raises what entering raised."""
        self._task = self._fiber.kernel.start(self._run(cm, name), fiber=self._fiber, name=name)
        try:
            return await asyncio.shield(self._ready)
        except BaseException:
            # Nobody holds the value: leave again as soon as it is entered.
            self._close.set()
            self._ready.add_done_callback(_retrieve)
            raise

    def close(self) -> Coroutine[Any, Any, None]:
        """Leave; the result waits until that is done."""
        self._close.set()
        return self._ended()

    async def _ended(self) -> None:
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _run(self, cm: AbstractAsyncContextManager[T], name: str) -> None:
        try:
            async with cm as value:
                self._ready.set_result(value)
                await self._close.wait()
        except asyncio.CancelledError:
            self._ready.cancel()
            raise
        except FAILURES as error:  # containment: entering raises to the caller, later it is logged
            failure = failure_of(error)
            if self._ready.done():
                log_failure(self._fiber, name, failure)
            else:
                self._ready.set_exception(failure)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
