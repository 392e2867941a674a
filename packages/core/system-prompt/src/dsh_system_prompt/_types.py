"""What registrations and an assembly are made of, and the events about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from dsh_cordis import Emit, ServiceKey, Waterfall
from dsh_llm import PromptSection, ToolSchema
from dsh_scope import scope_target

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal, Context, Target
    from dsh_llm import SessionId
    from dsh_session import Session

    from ._service import SystemPrompt


class AgentRef(Protocol):
    """What prompts, tools and policies may know of the agent that they serve."""

    @property
    def id(self) -> SessionId: ...
    @property
    def session(self) -> Session: ...
    @property
    def ctx(self) -> Context: ...


class AssembleContext(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a prompt is assembled."""

    scope: object | None = None
    """Scope key, the live agent as a rule; None sees global registrations only."""
    signal: AbortSignal | None = None
    """Aborts the assembly between its stages."""
    agent: AgentRef | None = None


Text: TypeAlias = str | Callable[[AssembleContext], str]
"""Prompt text with `{{variable}}` groups, or a function that makes it for one assembly."""


class ToolContribution(msgspec.Struct, frozen=True):
    """What one provider adds to the tools of a request."""

    schemas: tuple[ToolSchema, ...]
    known_names: Collection[str] | None = None
    """Every name that the provider could offer, hidden ones included; None means the schemas'.

    A configured tool order may name these without the tool being there.
    """


ToolProvider: TypeAlias = Callable[[AssembleContext], ToolContribution]
VariableProvider: TypeAlias = Callable[[AssembleContext], str | None]
"""The value of a variable, or None when this assembly has none."""


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt in parts, its variables not yet put in. Change it with `msgspec.structs.replace`."""

    sections: tuple[PromptSection, ...] = ()
    """The system prompt, in order."""
    contexts: tuple[PromptSection, ...] = ()
    """Facts of the moment, in order; the loop sends them as messages, not as system prompt."""
    tools: tuple[ToolSchema, ...] = ()
    variables: Mapping[str, str | None]
    """Registered names; None stands for a variable without a value."""


class AssemblePayload(msgspec.Struct, frozen=True):
    """An assembly on its way through the listeners; `await next()` gives what they made of it."""

    assembly: Assembly
    context: AssembleContext


class SystemPromptChanged(msgspec.Struct, frozen=True):
    """A registration came or went; assemble again to see what it means."""

    scope: object | None
    """Where; None is everywhere."""


def _scope(payload: AssemblePayload) -> Target:
    return scope_target(payload.context.scope)


SYSTEM_PROMPT: ServiceKey[SystemPrompt] = ServiceKey("system_prompt")
SYSTEM_PROMPT_ASSEMBLE = Waterfall[Assembly, AssemblePayload](
    "system-prompt/assemble", scoped=_scope
)
"""All is assembled; heard in the scope that the prompt is for."""
SYSTEM_PROMPT_CHANGE = Emit[SystemPromptChanged]("system-prompt/change")
"""A registration came or went."""
