"""What the events that a session starts from have to satisfy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

import msgspec
from dsh_cordis import CordisError
from dsh_llm import Message, ModelSource, ToolResultBlock, ToolSource
from msgspec import UNSET

from ._envelope import SessionEvent
from ._errors import SessionError
from ._surface import SurfaceManager
from ._view import AnyEvent
from ._vocabulary import (
    ASSISTANT_MESSAGE,
    REQUEST_HEADER,
    TOOL_RESULT,
    USER_MESSAGE,
    AssistantMessage,
    RequestHeader,
    ToolResult,
)

RETIRED_TYPES: Final = frozenset({"request/header-delta", "mode/set"})
"""Types of earlier versions that no log holds any more."""


def replay_seed(events: list[AnyEvent], surface: SurfaceManager) -> None:
    """Check `events` as the start of a log and apply them to its surface.

    Raises `SessionError` with code `INVALID_SEED` naming the index of the first offender.
    """
    index = 0
    try:
        for index, event in enumerate(events):
            if (
                event.__class__ is not SessionEvent
                or event.seq != index
                or type(event.time) is not int
            ):
                _refuse(event, index)
            if event.type in _SPECIAL or event.surface_op or event.source_event_seqs is not None:
                _replay(event, surface)
    except (CordisError, msgspec.DecodeError, ValueError, AttributeError) as error:
        raise SessionError(
            f"event {index} of the seed cannot be used: {error}", code="INVALID_SEED"
        ) from error


def check_retired(name: str) -> None:
    """Raises `SessionError` for a type that was retired."""
    if name in RETIRED_TYPES:
        raise SessionError(f"event type {name!r} is retired", code="RETIRED_EVENT")


def _refuse(event: object, index: int) -> NoReturn:
    if not isinstance(event, SessionEvent):
        raise ValueError(f"it is a {type(event).__name__}, not a SessionEvent")  # noqa: TRY004 - all offences leave as one error
    found = cast("AnyEvent", event)
    if found.seq != index:
        raise ValueError(f"its seq is {found.seq}, expected {index}")
    raise ValueError(f"its time is {found.time!r}, not epoch milliseconds")


def _replay(event: AnyEvent, surface: SurfaceManager) -> None:
    check_retired(event.type)
    check = _CHECKS.get(event.type)
    if check is not None:
        check(event.data)
    surface.apply(event, surface.check(event))


def _check_message(message: Message, role: str) -> None:
    _require(message.id, "message id")
    if message.role != role:
        raise ValueError(f"its message has the role {message.role!r}, not {role!r}")


def _check_user(message: Message) -> None:
    _check_message(message, "user")


def _check_assistant(data: AssistantMessage) -> None:
    _check_message(data.message, "assistant")
    source = data.message.source
    if not isinstance(source, ModelSource):
        raise ValueError("its message is not from a model")  # noqa: TRY004 - all offences leave as one error
    _require(source.provider, "provider")
    _require(source.model, "model")


def _check_result(data: ToolResult) -> None:
    message = data.message
    _check_message(message, "user")
    source, content = message.source, message.content
    if not isinstance(source, ToolSource):
        raise ValueError("its message is not from a tool")  # noqa: TRY004 - all offences leave as one error
    _require(source.call_id, "call id")
    if len(content) != 1 or not isinstance(content[0], ToolResultBlock):
        raise ValueError("its message is not one tool-result block")
    if content[0].tool_call_id != source.call_id:
        raise ValueError(f"its block answers {content[0].tool_call_id!r}, not {source.call_id!r}")


def _check_header(data: RequestHeader) -> None:
    config = data.header.config
    _require(config.provider, "provider")
    _require(config.model, "model")
    if config.reasoning_effort is not UNSET:
        _require(config.reasoning_effort, "reasoning effort")
    filled = data.header.adapter_defaults
    if filled is UNSET:
        return
    if filled.reasoning_effort is True and config.reasoning_effort is UNSET:
        raise ValueError("its adapter filled a reasoning effort that is not there")
    if filled.max_tokens is True and config.max_tokens is UNSET:
        raise ValueError("its adapter filled a token limit that is not there")


def _require(value: str, what: str) -> None:
    if not value:
        raise ValueError(f"its {what} is empty")


_CHECKS: Final[dict[str, Callable[[Any], None]]] = {
    ASSISTANT_MESSAGE.name: _check_assistant,
    REQUEST_HEADER.name: _check_header,
    TOOL_RESULT.name: _check_result,
    USER_MESSAGE.name: _check_user,
}

_SPECIAL: Final = frozenset(_CHECKS) | RETIRED_TYPES
"""The types that need more than a look at their envelope; most of a log is not of these."""
