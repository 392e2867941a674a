"""The service: registrations in scope layers, and their assembly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, TypeVar

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

T = TypeVar("T")

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
    persona: Annotated[
        str,
        Meta(description="Section `deployment:persona`: who the model is and how it should work."),
    ] = ""
    tool_order: Annotated[
        tuple[str, ...] | None,
        Meta(description="Tool names and `<unlisted-tools>` once; by name if absent."),
    ] = None


class _Entry(msgspec.Struct, frozen=True):
    name: str
    order: float
    text: Text
    complete: bool = False


class _Layer:
    """What one scope registered."""

    def __init__(self) -> None:
        self.sections = NamedEntries[_Entry]("prompt section")
        self.contexts = NamedEntries[_Entry]("prompt context")
        self.variables = NamedEntries[VariableProvider]("prompt variable")
        self.tools = AnonymousEntries[ToolProvider]()
        self.suppressors = AnonymousEntries[None]()

    def __len__(self) -> int:
        return sum(
            map(len, (self.sections, self.contexts, self.variables, self.tools, self.suppressors))
        )


class SystemPrompt(Service):
    """Collects prompt text, tools and variables; every registration lands in the caller's scope.

    Each returns its exact disposer and unwinds with the caller. Nearer scopes shadow by name.
    """

    provides = SYSTEM_PROMPT
    Config = SystemPromptConfig
    name = "dsh-system-prompt"

    def __init__(self, ctx: Context, config: SystemPromptConfig | None = None) -> None:
        super().__init__(ctx, config)
        self.config = config or SystemPromptConfig()
        if self.config.tool_order is not None:
            check_tool_order(self.config.tool_order)
        self._layers = ScopedLayers(_Layer, notify=self._changed)

    def start(self) -> Iterator[Disposer]:
        """Register what the configuration asks for."""
        if self.config.include_harness_identity:
            yield self.section("harness:identity", order=-100, text=IDENTITY)
        yield self.section("deployment:persona", order=0, text=self.config.persona)
        if not self.config.include_runtime_context:
            yield self.suppress_runtime_context()

    def section(self, name: str, *, order: float, text: Text, complete: bool = False) -> Disposer:
        """Add a section of the system prompt.

        Sections stand by `order` (identity -100, persona 0, tool guidance 100 to 199), then by
        registration. A `complete` one replaces the whole prompt. Raises `SystemPromptError`
        `INVALID_ORDER` and `DUPLICATE_SECTION`.
        """
        entry = _Entry(name, order, text, complete)
        _check_order(entry, "section")
        return self._register(lambda layer: layer.sections, name, entry, "section")

    def context(self, name: str, *, order: float, text: Text) -> Disposer:
        """Add a fact of the moment. Ordering and errors as `section` (`DUPLICATE_CONTEXT`)."""
        entry = _Entry(name, order, text)
        _check_order(entry, "context")
        return self._register(lambda layer: layer.contexts, name, entry, "context")

    def tools(self, provider: ToolProvider) -> Disposer:
        """Add a source of tools; the sources of all layers in the chain contribute."""
        return self._layers.effect(
            self.ctx, lambda layer: layer.tools.add(provider), label="prompt tools"
        )

    def variable(self, name: str, provider: VariableProvider) -> Disposer:
        """Add a variable for `{{name}}`; `name` matches `[a-z][a-z0-9_]*`.

        Raises `SystemPromptError` `INVALID_VARIABLE_NAME` and `DUPLICATE_VARIABLE`.
        """
        if not VARIABLE_NAME.fullmatch(name):
            message = f"a variable cannot be named {name!r}: use a-z, 0-9 and _, a letter first"
            raise SystemPromptError(message, code="INVALID_VARIABLE_NAME")
        return self._register(lambda layer: layer.variables, name, provider, "variable")

    def suppress_runtime_context(self) -> Disposer:
        """Keep runtime contexts from the model in this scope and below."""
        return self._layers.effect(
            self.ctx, lambda layer: layer.suppressors.add(None), label="no runtime context"
        )

    async def assemble(self, context: AssembleContext) -> Assembly:
        """The prompt for `context`, fresh each time.

        Raises `SystemPromptError` for an unusable combination of registrations, the reason of
        `context.signal`, and whatever a provider or listener raises.
        """
        if context.signal is not None:
            context.signal.throw_if_aborted()
        layers = self._layers.chain_layers(context.scope)
        assembly, complete = self._assembled(layers, context)
        payload = AssemblePayload(assembly, context)

        async def inner() -> Assembly:
            return assembly

        assembly = await self.own.waterfall(SYSTEM_PROMPT_ASSEMBLE, payload, inner=inner)
        if context.signal is not None:
            context.signal.throw_if_aborted()
        if complete is not None:
            assembly = msgspec.structs.replace(assembly, sections=(complete,))
        if assembly.contexts and _suppressed(layers):
            assembly = msgspec.structs.replace(assembly, contexts=())
        return assembly

    def _assembled(
        self, layers: list[_Layer], context: AssembleContext
    ) -> tuple[Assembly, PromptSection | None]:
        """Everything before the listeners, and the complete section if there is one."""
        scope, merge = context.scope, self._layers.merge
        variables = {name: provider(context) for name, provider in merge(scope, _variables).items()}
        tools = self._tools(layers, context)
        entries = _in_order(merge(scope, _sections))
        complete = _complete_section(entries)
        sections = tuple(_made(entry, context) for entry in entries)
        contexts: tuple[PromptSection, ...] = ()
        if not _suppressed(layers):
            facts = _in_order(merge(scope, _contexts))
            contexts = tuple(_made(entry, context) for entry in facts)
        assembly = Assembly(sections=sections, contexts=contexts, tools=tools, variables=variables)
        if complete is None:
            return assembly, None
        return assembly, sections[entries.index(complete)]

    def _tools(self, layers: list[_Layer], context: AssembleContext) -> tuple[ToolSchema, ...]:
        schemas: list[ToolSchema] = []
        known: set[str] = set()
        for provider in [one for layer in layers for one in layer.tools]:
            contribution = provider(context)
            schemas += contribution.schemas
            known.update(tool.name for tool in contribution.schemas)
            known.update(contribution.known_names or ())
        return order_tools(schemas, self.config.tool_order, known)

    def _register(
        self, pick: Callable[[_Layer], NamedEntries[T]], name: str, value: T, kind: str
    ) -> Disposer:
        def action(layer: _Layer) -> Callable[[], None]:
            entries = pick(layer)
            if name in entries:
                message = f"prompt {kind} {name!r} is registered already in this scope"
                raise SystemPromptError(message, code=f"DUPLICATE_{kind.upper()}")
            return entries.add(name, value)

        return self._layers.effect(self.ctx, action, label=f"prompt {kind} {name}")

    def _changed(self, scope: object | None) -> None:
        self.own.emit(SYSTEM_PROMPT_CHANGE, SystemPromptChanged(scope))


def _check_order(entry: _Entry, kind: str) -> None:
    if not math.isfinite(entry.order):
        message = f"prompt {kind} {entry.name!r}: order must be a finite number"
        raise SystemPromptError(message, code="INVALID_ORDER")


def _sections(layer: _Layer) -> Iterable[tuple[str, _Entry]]:
    return layer.sections.items()


def _contexts(layer: _Layer) -> Iterable[tuple[str, _Entry]]:
    return layer.contexts.items()


def _variables(layer: _Layer) -> Iterable[tuple[str, VariableProvider]]:
    return layer.variables.items()


def _in_order(entries: dict[str, _Entry]) -> list[_Entry]:
    return sorted(entries.values(), key=lambda entry: entry.order)


def _made(entry: _Entry, context: AssembleContext) -> PromptSection:
    text = entry.text
    return PromptSection(entry.name, text if isinstance(text, str) else text(context))


def _complete_section(entries: list[_Entry]) -> _Entry | None:
    complete = [entry for entry in entries if entry.complete]
    if len(complete) > 1:
        names = ", ".join(repr(entry.name) for entry in complete)
        message = f"sections {names} each want to be the whole prompt; register only one"
        raise SystemPromptError(message, code="SEVERAL_COMPLETE_SECTIONS")
    return complete[0] if complete else None


def _suppressed(layers: list[_Layer]) -> bool:
    return any(len(layer.suppressors) for layer in layers)
