"""Payloads and keys of the session's own event types."""

from __future__ import annotations

from typing import Literal

import msgspec
from dsh_llm import AdapterDefaults, LlmCallConfig, Message, StreamChunk, ToolSchema, Usage
from dsh_lossless_json import FrozenJson, OpenUnion
from msgspec import UNSET, UnsetType

from ._envelope import LogEvent, SurfaceEvent


class TurnStart(msgspec.Struct, frozen=True):
    """A turn opens; turns count from 1 over the whole session."""

    turn: int


class AbortCause(OpenUnion, tag_field="kind"):
    """Who stopped a turn. An open union on `kind`."""

    __slots__ = ()


@AbortCause.variant
class ByUser(msgspec.Struct, AbortCause, frozen=True, tag_field="kind", tag="user"):
    """The person."""


@AbortCause.variant
class ByParent(msgspec.Struct, AbortCause, frozen=True, tag_field="kind", tag="parent"):
    """The agent that owns this one."""


@AbortCause.variant
class ByHook(msgspec.Struct, AbortCause, frozen=True, tag_field="kind", tag="hook"):
    """A hook, with its reason."""

    reason: str


@AbortCause.variant
class ByDisposal(msgspec.Struct, AbortCause, frozen=True, tag_field="kind", tag="disposed"):
    """The agent was disposed."""


class TurnEndReason(OpenUnion, tag_field="kind"):
    """How a turn ended. An open union on `kind`."""

    __slots__ = ()


@TurnEndReason.variant
class TurnCompleted(msgspec.Struct, TurnEndReason, frozen=True, tag_field="kind", tag="completed"):
    """Nothing more was owed."""


@TurnEndReason.variant
class TurnAborted(msgspec.Struct, TurnEndReason, frozen=True, tag_field="kind", tag="aborted"):
    """Somebody stopped it."""

    reason: AbortCause


@TurnEndReason.variant
class TurnBlocked(msgspec.Struct, TurnEndReason, frozen=True, tag_field="kind", tag="blocked"):
    """A listener rejected the input."""


@TurnEndReason.variant
class TurnMaxTokens(msgspec.Struct, TurnEndReason, frozen=True, tag_field="kind", tag="max-tokens"):
    """A step was cut by the output limit."""


@TurnEndReason.variant
class TurnInterrupted(
    msgspec.Struct, TurnEndReason, frozen=True, tag_field="kind", tag="interrupted"
):
    """The process died; written by the repair of the next one."""


class ErrorFacts(msgspec.Struct, frozen=True, rename="camel"):
    """What is known about the failure that ended a turn; `UNKNOWN` for what no code names."""

    message: str
    code: str
    status: int | UnsetType = UNSET
    provider_retry_after_ms: float | UnsetType = UNSET
    request_id: str | UnsetType = UNSET


@TurnEndReason.variant
class TurnFailed(msgspec.Struct, TurnEndReason, frozen=True, tag_field="kind", tag="error"):
    """Something failed."""

    error: ErrorFacts


class TurnEnd(msgspec.Struct, frozen=True):
    """The open turn closes."""

    turn: int
    reason: TurnEndReason


class StepMark(msgspec.Struct, frozen=True):
    """A step opens or closes; steps count from 1 in their turn."""

    turn: int
    step: int


class AssistantChunk(msgspec.Struct, frozen=True):
    """One chunk of the model's stream, as it came."""

    turn: int
    step: int
    chunk: StreamChunk


class AssistantMessage(msgspec.Struct, frozen=True, rename="camel"):
    """What the step's stream amounted to."""

    turn: int
    step: int
    message: Message
    usage: Usage | UnsetType = UNSET
    interrupted: Literal[True] | UnsetType = UNSET
    """Set on the visible part of a cancelled stream; such a message holds no calls."""


class ToolCall(msgspec.Struct, frozen=True, rename="camel"):
    """A call starts. `arguments` is what the model sent, possibly malformed JSON."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class ErrorName(msgspec.Struct, frozen=True):
    """Class and code of a tool's failure."""

    name: str
    code: str


class ToolResult(msgspec.Struct, frozen=True, rename="camel"):
    """A call's one result."""

    turn: int
    step: int
    message: Message
    error: ErrorName | UnsetType = UNSET
    meta: FrozenJson | UnsetType = UNSET
    """What presentations need beyond the text; never sent to the model."""


class EpochHeader(msgspec.Struct, frozen=True, rename="camel"):
    """All of a request but its messages; empty parts are absent."""

    config: LlmCallConfig
    adapter_defaults: AdapterDefaults | UnsetType = UNSET
    system: str | UnsetType = UNSET
    tools: tuple[ToolSchema, ...] | UnsetType = UNSET


class RequestHeader(msgspec.Struct, frozen=True):
    """The header of the requests that follow, until the next one."""

    header: EpochHeader
    reason: Literal["initial", "resume", "change"]


class RequestContext(msgspec.Struct, frozen=True, rename="camel"):
    """The route of the requests that follow and its capacity, if known."""

    provider: str
    model: str
    context_window: int | UnsetType = UNSET


class EndSeed(msgspec.Struct, frozen=True):
    """What stands before it was inherited or restored."""


TURN_START = LogEvent("turn/start", TurnStart)
TURN_END = LogEvent("turn/end", TurnEnd)
STEP_START = LogEvent("step/start", StepMark)
STEP_END = LogEvent("step/end", StepMark)
USER_MESSAGE = SurfaceEvent("user/message", Message)
ASSISTANT_CHUNK = LogEvent("assistant/chunk", AssistantChunk)
ASSISTANT_MESSAGE = SurfaceEvent("assistant/message", AssistantMessage)
TOOL_CALL = LogEvent("tool/call", ToolCall)
TOOL_RESULT = SurfaceEvent("tool/result", ToolResult)
REQUEST_HEADER = LogEvent("request/header", RequestHeader)
REQUEST_CONTEXT = LogEvent("request/context", RequestContext)
END_SEED = LogEvent("session/end-seed", EndSeed)
