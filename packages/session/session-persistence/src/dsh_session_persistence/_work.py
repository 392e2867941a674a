"""Waiting that can be given up, and work that cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dsh_cordis import AbortSignal

if TYPE_CHECKING:
    from dsh_cordis import Context

T = TypeVar("T")


async def unless(signal: AbortSignal | None, work: Callable[[], Awaitable[T]]) -> T:
    """The result of `work`; raises the signal's reason as soon as that aborts."""
    if signal is None:
        return await work()
    async with signal.scope():
        return await work()
    raise AssertionError("the scope raises if it was left by an abort")


async def finish(ctx: Context, work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` to its end before the caller's cancellation counts.

    Half a write helps nobody, and what it acquired has to be known to be released.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            done.set_result(await work())
        except Exception as error:  # noqa: BLE001 - handed to the caller
            done.set_exception(error)

    task: asyncio.Task[Any] = ctx.spawn(run, stop=_let_it_end, name="session write")
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        done.exception()
        raise cancelled
    return done.result()


def _let_it_end() -> None:
    """Unload waits for writes instead of cancelling them."""
