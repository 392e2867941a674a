"""The rows of the headless profile, without its runner, in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dsh_agent import AGENTS, Agent, AgentHandle, AgentOptions, CreateAgent, ResumeAgent
from dsh_app_boot import boot, compose, open_profile
from dsh_cordis import Context, Fiber
from dsh_cordis_loader import LOADER, scan_entry_points
from dsh_launch_environment import LaunchEnvironment
from dsh_llm import SessionId, ToolCallBlock, ToolResultBlock, create_user_message
from dsh_llm_mock_server import MockServer
from dsh_session import ASSISTANT_MESSAGE, TOOL_RESULT, TURN_END, TURN_START, SessionMeta

OPTIONS = AgentOptions(provider="deepseek-official", model="deepseek-v4-flash")
PATIENCE = """\
- id: llm-deepseek
  config:
    baseURL: !expr env.get('DEEPSEEK_BASE_URL')
    retryPolicy: {backoff: {initialDelayMs: 1, maxDelayMs: 10}}
"""


@dataclass
class Product:
    """A booted product, its model and its workspace."""

    root: Context
    server: MockServer
    workspace: Path

    async def create(self, session_id: str = "s") -> AgentHandle:
        """An agent with a new session."""
        meta = SessionMeta(cwd=str(self.workspace))
        return await self.root[AGENTS].create(
            CreateAgent(session_id=SessionId(session_id), agent_options=OPTIONS, meta=meta)
        )

    async def resume(self, session_id: str = "s") -> AgentHandle:
        """An agent that goes on with a stored session."""
        return await self.root[AGENTS].resume(
            ResumeAgent(session_id=SessionId(session_id), agent_options=OPTIONS)
        )

    async def say(self, agent: Agent, text: str) -> str:
        """Send `text`; the kind of the last turn's ending."""
        agent.followup(create_user_message(text))
        await agent.when_idle()
        return ending(agent)

    def row(self, row_id: str) -> Fiber:
        """The mounted plugin of one row."""
        fibers = [e.fiber for e in self.root[LOADER].entries() if e.id == row_id]
        assert fibers[0] is not None
        return fibers[0]

    def live(self, agent: Agent) -> bool:
        """Whether the agent is still there."""
        agents = self.root.get(AGENTS)
        return agents is not None and agent in agents.list()


def ending(agent: Agent) -> str:
    """How the last turn of the log ended."""
    reasons = [event.data.reason for event in agent.session.events if TURN_END.of(event)]
    return type(reasons[-1]).__name__


def assert_closed(agent: Agent) -> None:
    """Every turn has its end and every call of the model exactly one result."""
    events = agent.session.events
    assert sum(TURN_START.of(e) for e in events) == sum(TURN_END.of(e) for e in events)
    messages = [event.data.message for event in events if ASSISTANT_MESSAGE.of(event)]
    results = [event.data.message for event in events if TOOL_RESULT.of(event)]
    asked = [b.id for m in messages for b in m.content if isinstance(b, ToolCallBlock)]
    answered = [
        b.tool_call_id for m in results for b in m.content if isinstance(b, ToolResultBlock)
    ]
    assert sorted(asked) == sorted(answered)


@pytest.fixture
def closed() -> Callable[[Agent], None]:
    return assert_closed


@pytest.fixture
async def product(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Boots the product with a strict model: `async with product(replies) as it`."""
    points = scan_entry_points()

    @asynccontextmanager
    async def booted(replies: Any) -> AsyncIterator[Product]:
        home, workspace = tmp_path / "home", tmp_path / "workspace"
        workspace.mkdir(exist_ok=True)
        overlay = tmp_path / "patience.yml"
        overlay.write_text(PATIENCE)
        profile = open_profile("headless", home=home, entry_points=points, create=True)
        rows = compose(profile, home=home, entry_points=points, overlays=[overlay]).rows
        kept = [row for row in rows if not row.id.startswith("headless-")]
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(MockServer(replies))
            environment = {
                "DEEPSEEK_API_KEY": "test-key",
                "DEEPSEEK_BASE_URL": server.base_url,
                "PATH": os.environ["PATH"],
            }
            root = await stack.enter_async_context(Context())
            await boot(
                root,
                kept,
                home=home,
                environment=LaunchEnvironment(environment),
                entry_points=points,
            )
            yield Product(root, server, workspace)
            assert server.refusals == []

    yield booted
