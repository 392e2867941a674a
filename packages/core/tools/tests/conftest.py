"""A real kernel with the real prompt service and registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from dsh_cordis import AbortController, Context
from dsh_llm import Message, SessionId, create_user_message, text_of
from dsh_scope import Scope, create_scope
from dsh_session import Session
from dsh_system_prompt import SystemPrompt
from dsh_tools import (
    TOOLS,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    ToolCallRequest,
    ToolDefinition,
    ToolExecuted,
    ToolOutcome,
    ToolRegistry,
    define_tool,
)


@dataclass(eq=False)
class Caller:
    """An agent as far as tools see it."""

    id: SessionId
    session: Session
    scope: Scope = field(init=False)

    @property
    def ctx(self) -> Context:
        return self.scope.ctx

    @property
    def tools(self) -> ToolRegistry:
        """The registry as seen from the agent: registrations are the agent's own."""
        tools = self.ctx.get(TOOLS)
        assert tools is not None
        return tools


class Trace:
    """Listens to every event of a call and writes down their order."""

    def __init__(self, kit: Any) -> None:
        self.seen: list[str] = []
        self.results: list[ToolExecuted] = []
        kit.root.on(TOOLS_PRE_EXECUTE, self.pre)
        kit.root.on(TOOLS_EXECUTE, self.execute)
        kit.root.on(TOOLS_POST_EXECUTE, self.post)
        kit.root.on(TOOLS_RESULT, self.result)

    async def pre(self, execution, proceed):
        self.seen.append("pre")
        return await proceed()

    async def execute(self, execution, proceed):
        self.seen.append("execute")
        return await proceed()

    async def post(self, executed, proceed):
        self.seen.append("post")
        return await proceed()

    def result(self, executed):
        self.seen.append("result")
        self.results.append(executed)


class Kit:
    """A mounted registry and shorthands for calls."""

    def __init__(self, root: Context) -> None:
        self.root = root
        self.tools = root[TOOLS]
        self.abort = AbortController()

    def trace(self) -> Trace:
        return Trace(self)

    def note(self, text: str) -> Message:
        return create_user_message(text)

    def notes(self, outcome: ToolOutcome) -> list[str]:
        return [text_of(message.content) for message in outcome.additional_contexts]

    def agent(self, name: str = "a") -> Caller:
        caller = Caller(SessionId(name), Session.create(SessionId(name)))
        caller.scope = create_scope(self.root, caller)
        return caller

    def add(self, execute: Any, *, params: Any = None, **options: Any) -> ToolDefinition:
        definition = define_tool(
            name=options.pop("name", "t"),
            description="d",
            params=params or {"type": "object"},
            execute=execute,
            **options,
        )
        self.tools.register(definition)
        return definition

    def request(self, arguments: object = None, **options: Any) -> ToolCallRequest:
        return ToolCallRequest(
            call_id="c1",
            name=options.pop("name", "t"),
            arguments={} if arguments is None else arguments,
            signal=options.pop("signal", self.abort.signal),
            **options,
        )

    async def call(self, arguments: object = None, **options: Any) -> ToolOutcome:
        return await self.tools.execute(self.request(arguments, **options))


@pytest.fixture
async def kit(anyio_backend: str) -> AsyncIterator[Kit]:
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(ToolRegistry)
        yield Kit(root)


@pytest.fixture
def text() -> Callable[[ToolOutcome], str]:
    """The text of an outcome."""
    return lambda outcome: "".join(getattr(block, "text", "?") for block in outcome.content)
