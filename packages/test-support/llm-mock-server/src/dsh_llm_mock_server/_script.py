"""Replies written as JSON, for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import msgspec

from ._records import MockServerError
from ._reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS: Final = (
    "body",
    "call",
    "comment",
    "cut",
    "eof",
    "finish",
    "pace",
    "pause",
    "raw",
    "reset",
    "split",
    "stall",
    "status",
    "text",
    "think",
)


def replies_from_json(data: bytes) -> tuple[Reply, ...]:
    """A JSON array of replies, each an array of steps.

    A step is an object with one key, a method of Reply: `{"text": "hi"}` passes the value,
    `{"call": {"name": "bash", "arguments": {}}}` passes an object's fields by name, `{"cut": null}`
    passes nothing. Raises MockServerError MOCK_BAD_SCRIPT with the place.
    """
    try:
        listed = msgspec.json.decode(data, type=list[list[dict[str, object]]])
    except msgspec.DecodeError as error:
        raise _bad(f"not an array of arrays of steps: {error}") from error
    return tuple(_reply(steps, f"reply {number}") for number, steps in enumerate(listed, 1))


def _reply(steps: list[dict[str, object]], at: str) -> Reply:
    reply = Reply()
    for number, step in enumerate(steps, 1):
        reply = _extended(reply, step, f"{at}, step {number}")
    return reply


def _extended(reply: Reply, step: dict[str, object], at: str) -> Reply:
    if len(step) != 1:
        raise _bad(f"{at}: {step!r} must have exactly one key")
    [(name, value)] = step.items()
    if name not in _STEPS:
        raise _bad(f"{at}: {name!r} is not one of {', '.join(_STEPS)}")
    method: Callable[..., Reply] = getattr(reply, name)
    try:
        if isinstance(value, dict):
            return method(**cast("dict[str, object]", value))
        return method() if value is None else method(value)
    except (TypeError, ValueError, AttributeError) as error:
        raise _bad(f"{at}: {error}") from error


def _bad(problem: str) -> MockServerError:
    return MockServerError(f"bad script: {problem}", code="MOCK_BAD_SCRIPT")
