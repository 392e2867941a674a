"""The service: registrations in scope layers, and their assembly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec
from dsh_cordis import Context, Disposer, Service
from dsh_llm import PromptSection, ToolSchema
from dsh_scope import AnonymousEntries, NamedEntries, ScopedLayers
from msgspec import Meta

from ._errors import SystemPromptError
from ._order import check_tool_order, order_tools
from ._render import VARIABLE_NAME
from ._types import (
    SYSTEM_PROMPT,
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_CHANGE,
    AssembleContext,
    AssemblePayload,
    Assembly,
    SystemPromptChanged,
    Text,
    ToolProvider,
    VariableProvider,
)

IDENTITY: Final = (
    "You are an AI agent. You work through DeepSeek Harness (dsh), which runs the tools you call."
)


class SystemPromptConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What every prompt of the deployment has."""

    include_harness_identity: Annotated[
        bool, Meta(description="One sentence that says what runs the model.")
    ] = True
    include_runtime_context: Annotated[
        bool, Meta(description="Whether facts of the moment reach the model at all.")
    ] = True
    persona: Annotated[str, Meta(description="Who the model is and how it should work.")] = ""
    tool_order: Annotated[
        tuple[str, ...] | None,
        Meta(description="Tool names and '<unlisted-tools>' once; sorted by name if absent."),
    ] = None


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    order: float
    text: Text
    complete: bool = False


class SystemPrompt(Service):
    """Collects prompt text, tools and variables; every registration lands in the caller's scope.

    Each returns its exact disposer and unwinds with the caller. Nearer scopes shadow by name.
    """

    provides = SYSTEM_PROMPT
    Config: ClassVar[type] = SystemPromptConfig

    def section(
        self, name: str, *, order: float, text: Text, complete: bool = False
    ) -> Disposer:
        """Add a section of the system prompt.

        Sections stand by `order` (identity -100, persona 0, tool guidance 100 to 199), then by
        registration. A `complete` one replaces the whole prompt. Raises `SystemPromptError`
        `INVALID_ORDER` and `DUPLICATE_SECTION`.
        """
        raise NotImplementedError

    def context(self, name: str, *, order: float, text: Text) -> Disposer:
        """Add a fact of the moment. Ordering and errors as `section`."""
        raise NotImplementedError

    def tools(self, provider: ToolProvider) -> Disposer:
        """Add a source of tools; the sources of all layers in the chain contribute."""
        raise NotImplementedError

    def variable(self, name: str, provider: VariableProvider) -> Disposer:
        """Add a variable for `{{name}}`; `name` matches `[a-z][a-z0-9_]*`.

        Raises `SystemPromptError` `INVALID_VARIABLE_NAME` and `DUPLICATE_VARIABLE`.
        """
        raise NotImplementedError

    def suppress_runtime_context(self) -> Disposer:
        """Keep runtime contexts from the model in this scope and below."""
        raise NotImplementedError

    async def assemble(self, context: AssembleContext) -> Assembly:
        """The prompt for `context`, fresh each time.

        Raises `SystemPromptError` for an unusable combination of registrations, the reason of
        `context.signal`, and whatever a provider or listener raises.
        """
        raise NotImplementedError
