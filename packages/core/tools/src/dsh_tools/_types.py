"""Calls, outcomes, decisions, and the events of a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec
from dsh_cordis import Emit, ServiceKey, Waterfall
from dsh_scope import scope_target
from dsh_system_prompt import AgentRef
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsh_cordis import AbortSignal, Target
    from dsh_llm import ContentBlock, Message
    from dsh_lossless_json import FrozenJson

    from ._execution import ToolExecution
    from ._registry import ToolRegistry


class CallToken:
    """Identity of one call; a nested call names its enclosing one by it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One call to run."""

    call_id: str
    name: str
    arguments: object
    """Parsed JSON as the model sent it; text that did not parse stays a string."""
    signal: AbortSignal
    """The caller's; aborting it stops the call."""
    agent: AgentRef | None = None
    """The agent that calls; the live one is a scope key."""
    parent: CallToken | None = None
    """Token of the call that makes this one."""
    root_call_id: str | None = None
    """The model's call that this one serves; `call_id` if None."""
    _converted: list[object] = field(default_factory=list, init=False, repr=False, compare=False)
    """The registry's memory of the one conversion of `arguments`; not for others."""


ExecutionMode: TypeAlias = Literal["parallel", "exclusive"]


class ToolFailureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call failed. `name` (error class) and `code` are both there or both None."""

    message: str
    name: str | None = None
    code: str | None = None


class ToolSuccess(msgspec.Struct, frozen=True, kw_only=True):
    """A call that did what it was asked."""

    is_error: ClassVar[Literal[False]] = False
    value: FrozenJson
    """The canonical result; never logged."""
    content: tuple[ContentBlock, ...]
    """What the model reads."""
    meta: FrozenJson | UnsetType = UNSET
    """What presentations need beyond the content; logged, never sent to the model."""
    additional_contexts: tuple[Message, ...] = ()
    """User messages for the next step."""
    concludes_turn: bool = False
    """Whether the turn ends with this batch of calls."""


class ToolFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A call that failed, was refused or was stopped."""

    is_error: ClassVar[Literal[True]] = True
    error: ToolFailureInfo
    content: tuple[ContentBlock, ...]
    meta: FrozenJson | UnsetType = UNSET
    additional_contexts: tuple[Message, ...] = ()


ToolOutcome: TypeAlias = ToolSuccess | ToolFailure


class Allow(msgspec.Struct, frozen=True):
    """Let the call run."""


class Deny(msgspec.Struct, frozen=True):
    """Refuse the call; the model reads `reason`."""

    reason: str


class Ask(msgspec.Struct, frozen=True):
    """Let a person decide. Where nobody can be asked the call is refused."""

    reason: str | None = None


PreDecision: TypeAlias = Allow | Deny | Ask


class Accept(msgspec.Struct, frozen=True, kw_only=True):
    """Keep the outcome, with `content` or `value` (never both) in place of its own.

    A new value is validated and rendered again, and only a success can have one.
    """

    content: Sequence[ContentBlock] | UnsetType = UNSET
    value: object = UNSET
    additional_contexts: Sequence[Message] = ()


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Turn the outcome into a failure that says `feedback`."""

    feedback: str
    additional_contexts: Sequence[Message] = ()


PostDecision: TypeAlias = Accept | Block


class ToolExecuted(msgspec.Struct, frozen=True):
    """A call and what came of it."""

    execution: ToolExecution
    outcome: ToolOutcome


class ToolsChanged(msgspec.Struct, frozen=True):
    """A tool came or went; read the registry again."""

    scope: object | None
    """Where; None is everywhere."""


def _call_scope(execution: ToolExecution) -> Target:
    return scope_target(execution.agent)


def _result_scope(executed: ToolExecuted) -> Target:
    return scope_target(executed.execution.agent)


TOOLS: ServiceKey[ToolRegistry] = ServiceKey("tools")
TOOLS_PRE_EXECUTE = Waterfall[PreDecision, "ToolExecution"]("tools/pre-execute", scoped=_call_scope)
"""Arguments are good, nothing ran: `Allow`, `Deny` or `Ask`."""
TOOLS_EXECUTE = Waterfall[ToolOutcome, "ToolExecution"]("tools/execute", scoped=_call_scope)
"""Around the body."""
TOOLS_POST_EXECUTE = Waterfall[PostDecision, ToolExecuted](
    "tools/post-execute", scoped=_result_scope
)
"""There is an outcome, a refusal too: `Accept` or `Block`."""
TOOLS_RESULT = Emit[ToolExecuted]("tools/result", scoped=_result_scope, contained=True)
"""The outcome is final."""
TOOLS_CHANGE = Emit[ToolsChanged]("tools/change")
"""A tool came or went."""
