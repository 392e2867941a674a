"""Failed outcomes, and errors as outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, TypeVar

from dsh_cordis import AbortedError, CordisError, cancelled_from_outside
from dsh_llm import TextBlock
from dsh_lossless_json import repaired

from ._errors import ToolError
from ._types import ToolFailure, ToolFailureInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dsh_llm import Message

T = TypeVar("T")

_ABORT_NAME: Final = "AbortError"
_MAX_NAMES: Final = 50


def failure(message: str, *, name: str | None = None, code: str | None = None) -> ToolFailure:
    """A failure that the model reads as `Error: <message>`."""
    text = repaired(message)
    info = ToolFailureInfo(message=text, name=name, code=code)
    return ToolFailure(error=info, content=(TextBlock(f"Error: {text}"),))


def failure_of(error: BaseException) -> ToolFailure:
    """What a raised error amounts to. Only our own errors have a class and a code to show."""
    if isinstance(error, AbortedError):
        return aborted()
    if isinstance(error, CordisError):
        return failure(str(error), name=type(error).__name__, code=error.code)
    text = str(error)
    # A KeyError's text is the bare key, which says nothing alone.
    if not text or isinstance(error, KeyError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return failure(text)


def aborted_before_dispatch() -> ToolFailure:
    """The call was stopped before its body ran."""
    text = "the call was stopped before it started; nothing was done"
    return failure(text, name=_ABORT_NAME, code="ABORTED_BEFORE_DISPATCH")


def aborted(contexts: Sequence[Message] = ()) -> ToolFailure:
    """The call was stopped while its body ran."""
    text = "the call was stopped while it ran; what it had done by then stays done"
    stopped = failure(text, name=_ABORT_NAME, code="ABORTED")
    if not contexts:
        return stopped
    return ToolFailure(
        error=stopped.error, content=stopped.content, additional_contexts=tuple(contexts)
    )


def unknown_tool(name: str, known: Collection[str]) -> ToolError:
    """Nobody offers `name` here; says what there is."""
    names = sorted(known)
    listed = ", ".join(names[:_MAX_NAMES]) or "none"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ToolError(f"unknown tool {name!r}; available: {listed}{more}", code="UNKNOWN_TOOL")


async def contained(work: Awaitable[T], what: str) -> T:
    """Await foreign code; an exit or a cancellation of its own making becomes a `ToolError`.

    A cancellation of the caller's task passes: it is not the foreign code's to decide.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        if cancelled_from_outside():
            raise
        raise ToolError(f"{what} awaited something that was cancelled") from error
    except SystemExit as error:
        raise ToolError(f"{what} tried to exit the process ({error})") from error
