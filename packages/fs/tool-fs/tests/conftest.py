"""The tools as a model meets them: real registry, prompt, files and policy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import dsh_fs_observation_policy
import dsh_tool_fs
import pytest
from dsh_cordis import AbortController, Context, Fiber
from dsh_fs_local import LocalFileSystem
from dsh_llm import SessionId
from dsh_scope import Scope, create_scope
from dsh_session import SESSIONS, Session, SessionMeta, SessionStore
from dsh_system_prompt import SystemPrompt
from dsh_tools import TOOLS, ToolCallRequest, ToolOutcome, ToolRegistry


@dataclass(eq=False)
class Caller:
    """An agent as far as tools see it."""

    id: SessionId
    session: Session
    scope: Scope = field(init=False)

    @property
    def ctx(self) -> Context:
        return self.scope.ctx


class Kit:
    """A workspace, agents that work in it, and calls by their text."""

    def __init__(self, ctx: Context, root: Path, tools: Fiber) -> None:
        self.ctx = ctx
        self.root = root
        self.plugin = tools
        self.abort = AbortController()
        self._ids = count(1)
        self.agent = self.new_agent()

    def new_agent(self, cwd: Path | None = None) -> Caller:
        name = SessionId(f"agent-{next(self._ids)}")
        sessions = self.ctx.get(SESSIONS)
        assert sessions is not None
        meta = SessionMeta(cwd=str(cwd or self.root))
        caller = Caller(name, sessions.create(name, meta=meta))
        caller.scope = create_scope(self.ctx, caller)
        return caller

    async def outcome(self, name: str, agent: Caller | None = None, **args: Any) -> ToolOutcome:
        request = ToolCallRequest(
            call_id=f"call-{next(self._ids)}",
            name=name,
            arguments=args,
            signal=self.abort.signal,
            agent=agent or self.agent,
        )
        return await self.ctx[TOOLS].execute(request)

    async def text(self, name: str, agent: Caller | None = None, **args: Any) -> str:
        """What the model reads."""
        outcome = await self.outcome(name, agent, **args)
        return "".join(getattr(block, "text", "?") for block in outcome.content)

    async def code(self, name: str, agent: Caller | None = None, **args: Any) -> str | None:
        """The code of a failure, None for a success."""
        outcome = await self.outcome(name, agent, **args)
        return outcome.error.code if outcome.is_error else None

    async def value(self, name: str, agent: Caller | None = None, **args: Any) -> Any:
        outcome = await self.outcome(name, agent, **args)
        assert not outcome.is_error, outcome
        return outcome.value

    def file(self, name: str, content: str | bytes = b"") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


@asynccontextmanager
async def _mounted(
    root: Path, *, policy: bool = True, files: object = LocalFileSystem, **config: Any
) -> AsyncIterator[Kit]:
    async with Context() as ctx:
        for plugin in (SessionStore, SystemPrompt, ToolRegistry, files):
            await ctx.plugin(plugin)
        if policy:
            await ctx.plugin(dsh_fs_observation_policy)
        tools = await ctx.plugin(dsh_tool_fs, config)
        yield Kit(ctx, root, tools)


Mount = Callable[..., AbstractAsyncContextManager[Kit]]


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    """Mounts the tools with a configuration, `policy=False` or other `files`."""
    root = tmp_path / "work"
    root.mkdir()
    return lambda **options: _mounted(root, **options)


@pytest.fixture
async def kit(mount: Mount, anyio_backend: str) -> AsyncIterator[Kit]:
    async with mount() as kit:
        yield kit
