"""From anything that was raised to the facts of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec
from dsh_cordis import CordisError

from ._chunks import Aborted, Failed, Finish
from ._failures import LlmFailure

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal

_UNNAMED = "the model request failed"
_ABORTED = "ABORTED"


def failure_of(error: BaseException) -> LlmFailure:
    """The facts of what an adapter raised; never raises.

    An error with a `failure` that validates and agrees with its `code` gives that failure. Else
    the text is the message, and the code is one of ours or `UNKNOWN`: codes of foreign libraries
    mean other things.
    """
    try:
        return _carried(error) or LlmFailure(str(error) or _UNNAMED, _own_code(error))
    except Exception:  # noqa: BLE001 - containment: a hostile error object must not escape as another error
        return LlmFailure(_UNNAMED, "UNKNOWN")


def terminal_chunk(failure: LlmFailure, signal: AbortSignal | None) -> Finish:
    """The last chunk of a stream that failed: `Aborted` if somebody wanted that, else `Failed`."""
    if failure.code == _ABORTED or (signal is not None and signal.aborted):
        return Finish(Aborted(failure))
    return Finish(Failed(failure))


def error_chain(error: object) -> str:
    """`error` and its causes in one line, for people who look for what went wrong.

    Message (the class name if it has none), then its causes after `: `, the members of a group in
    `[a; b]`. A cause that repeats its wrapper is left out. Never raises.
    """
    return _chain(error, frozenset())


def _carried(error: BaseException) -> LlmFailure | None:
    # By shape, not by class: the same package may be loaded twice.
    failure = getattr(error, "failure", None)
    if failure is None:
        return None
    try:
        facts = msgspec.convert(failure, LlmFailure, from_attributes=True)
    except (msgspec.ValidationError, TypeError):
        return None
    return facts if facts.code == getattr(error, "code", None) else None


def _own_code(error: BaseException) -> str:
    code = error.code if isinstance(error, CordisError) else ""
    return code if isinstance(code, str) and code else "UNKNOWN"  # pyright: ignore[reportUnnecessaryIsInstance] - a subclass may assign anything


def _chain(error: object, seen: frozenset[int]) -> str:
    if id(error) in seen:
        return "(seen above)"
    seen |= {id(error)}
    text = _message(error)
    if isinstance(error, BaseExceptionGroup):
        members = cast("tuple[BaseException, ...]", error.exceptions)
        text = f"{text} [{'; '.join(_chain(member, seen) for member in members)}]"
    cause = _cause(cast("object", error))
    if cause is None:
        return text
    rest = _chain(cause, seen)
    return text if rest == text else f"{text}: {rest}"


def _message(error: object) -> str:
    try:
        if isinstance(error, BaseExceptionGroup):
            # Its text would end in a count of the members, which follow anyway.
            return cast("BaseExceptionGroup[BaseException]", error).message or "ExceptionGroup"
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - containment: diagnostics of a broken object
        return "(unprintable)"


def _cause(error: object) -> BaseException | None:
    if not isinstance(error, BaseException):
        return None
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__
