"""The scoped registry of tools and the way to run one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from dsh_cordis import Context, Disposer, NoConfig, Service
from dsh_scope import NamedEntries, ScopedLayers, scope_of
from dsh_system_prompt import SYSTEM_PROMPT, AssembleContext, ToolContribution

from ._codec import frozen_arguments
from ._definition import ToolDefinition
from ._errors import ToolError
from ._pipeline import ToolRun
from ._types import TOOLS, TOOLS_CHANGE, ToolsChanged

if TYPE_CHECKING:
    from dsh_llm import ToolSchema

    from ._types import ExecutionMode, ToolCallRequest, ToolOutcome


class ToolRegistry(Service):
    """Tools by name and scope. A registration lands in the caller's scope and unwinds with it.

    A scope sees its own tools, those of its ancestors and the global ones; the nearest shadows.
    """

    provides = TOOLS
    inject = (SYSTEM_PROMPT,)
    Config = NoConfig
    name = "dsh-tools"

    def __init__(self, ctx: Context, config: NoConfig | None = None) -> None:
        super().__init__(ctx, config)
        self._layers = ScopedLayers(_layer, notify=self._changed)

    def start(self) -> Iterator[Disposer]:
        """Contribute the tools to every prompt."""
        yield self.own[SYSTEM_PROMPT].tools(self._contribute)

    def register(self, definition: ToolDefinition) -> Disposer:
        """Offer a tool. Raises `ToolError` `DUPLICATE_TOOL` for a name of the same scope."""
        if not isinstance(definition, ToolDefinition):  # pyright: ignore[reportUnnecessaryIsInstance] - the commonest slip of authors
            raise TypeError(f"{definition!r} is no tool: decorate it with @tool or use define_tool")
        scoped = scope_of(self.ctx) is not None

        def action(layer: NamedEntries[ToolDefinition]) -> Callable[[], None]:
            if definition.name in layer:
                where = "this scope" if scoped else "everyone"
                hint = "" if scoped else "; register through an agent's context to shadow it there"
                message = f"tool {definition.name!r} is registered already for {where}{hint}"
                raise ToolError(message, code="DUPLICATE_TOOL")
            return layer.add(definition.name, definition)

        return self._layers.effect(self.ctx, action, label=f"tool {definition.name}")

    def get(self, name: str, scope: object | None = None) -> ToolDefinition | None:
        """The tool that `scope` sees under `name`."""
        for layer in reversed(self._layers.chain_layers(scope)):
            if (definition := layer.get(name)) is not None:
                return definition
        return None

    def schemas(self, scope: object | None = None) -> tuple[ToolSchema, ...]:
        """What a model in `scope` is offered, in order of registration."""
        return tuple(definition.schema for definition in self._visible(scope).values())

    def execution_mode(self, request: ToolCallRequest) -> ExecutionMode:
        """Whether the call may overlap others; exclusive for unknown tools and bad arguments."""
        definition = self.get(request.name, request.agent)
        if definition is None or definition.is_concurrency_safe is False:
            return "exclusive"
        _, args, refused = _converted(request, definition)
        if refused is not None:
            return "exclusive"
        safe = definition.is_concurrency_safe
        if callable(safe):
            try:
                safe = safe(args)
            except Exception:  # noqa: BLE001 - containment: a classifier that raises promises nothing
                return "exclusive"
        return "parallel" if safe is True else "exclusive"

    def begin(self, request: ToolCallRequest) -> ToolRun:
        """Take a call in: convert and freeze its arguments. Never raises for a bad call.

        The caller then awaits `prepare`, `dispatch` (if `prepare` said so) and `finalize`.
        """
        definition = self.get(request.name, request.agent)
        arguments, args, refused = _converted(request, definition)
        return ToolRun(
            self.own,
            request,
            definition=definition,
            known=lambda: self._visible(request.agent),
            arguments=arguments,
            args=args,
            refused=refused,
        )

    async def execute(self, request: ToolCallRequest) -> ToolOutcome:
        """Run a call through all stages."""
        run = self.begin(request)
        if await run.prepare():
            await run.dispatch()
        return await run.finalize()

    def _visible(self, scope: object | None) -> dict[str, ToolDefinition]:
        return self._layers.merge(scope, lambda layer: layer.items())

    def _contribute(self, context: AssembleContext) -> ToolContribution:
        return ToolContribution(self.schemas(context.scope))

    def _changed(self, scope: object | None) -> None:
        self.own.emit(TOOLS_CHANGE, ToolsChanged(scope))


def _layer() -> NamedEntries[ToolDefinition]:
    return NamedEntries("tool")


def _converted(
    request: ToolCallRequest, definition: ToolDefinition | None
) -> tuple[Any, Any, Exception | None]:
    """Frozen arguments, the typed value and the error that came instead; made once a request."""
    memory = request._converted  # noqa: SLF001 - the request keeps it for the registry
    if memory and memory[0] is definition:
        return cast("tuple[Any, Any, Exception | None]", memory[1])
    frozen: Any = None
    args: Any = None
    refused: Exception | None = None
    try:
        if definition is None:
            frozen = frozen_arguments(request.arguments)
        else:
            frozen = definition.arguments.read(request.arguments)
            args = definition.arguments.build(frozen)
    except Exception as error:  # noqa: BLE001 - containment: a type's own validation is foreign code
        refused = error
    memory[:] = [definition, (frozen, args, refused)]
    return frozen, args, refused
