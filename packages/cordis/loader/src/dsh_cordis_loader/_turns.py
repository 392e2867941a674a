"""Changes of the tree, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from ._errors import LoaderError

if TYPE_CHECKING:
    from dsh_cordis import Context

T = TypeVar("T")
_log = logging.getLogger("dsh.cordis.loader")


class Turns:
    """Runs each change in a task of the loader, so that whoever asked for it may go away.

    A row may ask for its own end: its task is stopped by that end, the change goes on.
    """

    def __init__(self, own: Context) -> None:
        self._own = own
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None
        self.pending: set[asyncio.Future[None]] = set()
        """One for each change that was asked for and is not over."""

    @property
    def idle(self) -> bool:
        """Whether no change is running."""
        return self._holder is None

    @property
    def alive(self) -> bool:
        """Whether the loader's plugin is still mounted."""
        return self._own.fiber.uid is not None

    def check_caller(self, caller: Context) -> None:
        """Raises LoaderError (`SELF_WAIT`) in a plugin's body: the tree waits for its end."""
        inertia = caller.fiber.inertia
        if inertia is not None and inertia is asyncio.current_task():
            raise LoaderError(
                f"the body of {caller.fiber.name} cannot wait for the tree, which waits for it;"
                " do it in a task: ctx.spawn(...)",
                code="SELF_WAIT",
            )

    async def run(self, change: Callable[[], Awaitable[T]], *, gone: T) -> T:
        """The result of `change`, run when it is its turn; `gone` if the tree ends meanwhile.

        A change that a running change asks for is part of it.
        """
        if self._holder is not None and self._holder is asyncio.current_task():
            return await change()
        if not self.alive:
            return gone
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pending.add(over)
        task = self._own.spawn(self._turn, change, result, name="loader change")

        def end(_task: object) -> None:
            self.pending.discard(over)
            over.set_result(None)

        task.add_done_callback(end)
        try:
            # asyncio.wait: a cancelled caller must not cut a change short.
            await asyncio.wait({task})
        except asyncio.CancelledError:
            result.add_done_callback(_unheard)
            raise
        return await result if result.done() else gone

    async def _turn(self, change: Callable[[], Awaitable[T]], result: asyncio.Future[T]) -> None:
        async with self._lock:
            self._holder = cast("asyncio.Task[object]", asyncio.current_task())
            try:
                value = await change()
            except Exception as error:  # noqa: BLE001 - containment: raised to whoever asked
                result.set_exception(error)
            else:
                result.set_result(value)
            finally:
                self._holder = None


def _unheard(result: asyncio.Future[T]) -> None:
    error = None if result.cancelled() else result.exception()
    if error is not None:
        _log.error("a change that nobody waits for any more failed: %s", error)
