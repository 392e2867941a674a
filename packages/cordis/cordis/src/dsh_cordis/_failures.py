"""What counts as a failure of a plugin, and what has to pass through."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable
from typing import Final

from ._errors import CordisError

STOPS: Final = (asyncio.CancelledError, SystemExit)
"""What a plain function can only bring up itself: nobody cancels or exits in the middle of one."""

FAILURES: Final = (Exception, BaseExceptionGroup, *STOPS)
"""What is contained where a plain function of a plugin is called."""


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
    except FAILURES as error:  # containment: the caller decides what a failure means
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


def discard(work: Awaitable[object]) -> None:
    """Give up `work`, over or never begun, without a warning that nobody awaited it."""
    if inspect.iscoroutine(work):
        work.close()


async def outlive() -> None:
    """Go on in the running task although it was asked to end."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)  # where a request that has not arrived yet does
    while task.cancelling():
        task.uncancel()


def combined(message: str, errors: list[BaseException]) -> BaseException:
    """The only error, or a group of several."""
    return errors[0] if len(errors) == 1 else BaseExceptionGroup(message, errors)
