"""What counts as a failure of a plugin, and what has to pass through."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import signal
import traceback
from collections.abc import Awaitable
from typing import Final

from ._errors import CordisError
from ._report import shown

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
    except GeneratorExit:
        raise  # the coroutine that awaits is being closed
    except BaseException as error:  # noqa: BLE001 - containment: the caller decides what a failure means
        return plugin_failure(error)
    return None


def failure_of(error: BaseException) -> BaseException:
    """What is kept of `error`: an exit is a failure of the plugin, not the end of the process.

    Raised again later, it would end the process from inside whoever waits.
    """
    exits = isinstance(error, SystemExit)
    kept: BaseException = error
    if isinstance(error, FAILURES) and not exits:
        return kept
    what = f"it tried to exit the process ({error})" if exits else f"it raised {shown(error)}"
    failure = CordisError(what, code="PLUGIN_EXIT")
    failure.__cause__ = error
    return failure


def plugin_failure(error: BaseException) -> BaseException:
    """What is kept of anything that a plugin's own code raised; a Ctrl+C is raised again."""
    if isinstance(error, KeyboardInterrupt) and _pressed(error):
        raise error
    return failure_of(error)


def _pressed(error: KeyboardInterrupt) -> bool:
    """Whether somebody pressed Ctrl+C, and no plugin raised what looks like it."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return True  # it raises in the midst of whatever runs: nobody can tell
    while isinstance(handler, functools.partial):
        handler = handler.func
    code = getattr(handler, "__code__", None)
    return any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


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


async def endured(work: Awaitable[object]) -> BaseException | None:
    """Like `outcome`, in a task that goes on: that it was asked to end is a failure of `work`.

    A plugin asked so from inside, or the loop is being closed; what is left is undone in any case.
    """
    try:
        failure = await outcome(work)
    except asyncio.CancelledError as error:
        failure = error
    await outlive()
    return failure


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
