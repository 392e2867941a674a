"""An agent without a loop: all that registry and inbox need of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from dsh_agent import (
    AGENTS,
    Agent,
    AgentHandle,
    AgentOptions,
    AgentRegistry,
    AgentStatus,
    CreateAgent,
    Inbox,
    InboxTarget,
    ResumeAgent,
)
from dsh_cordis import Context
from dsh_llm import Message, SessionId
from dsh_scope import create_scope
from dsh_session import SESSIONS, AbortCause, Session, SessionStore


class RestingAgent(Agent):
    """Keeps what it is sent and never runs."""

    def __init__(self, root: Context, session: Session) -> None:
        self.id = session.id
        self.options = AgentOptions()
        self.session = session
        self.ctx = create_scope(root, self).ctx
        self.inbox = Inbox(self, root)

    @property
    def status(self) -> AgentStatus:
        return "idle"

    def send(self, message: Message, target: InboxTarget, *, wakeup: bool = True) -> None:
        self.inbox.append(target, message)

    def cancel(self, cause: AbortCause, *, keep_inbox: bool = False) -> None:
        self.inbox.clear()

    async def when_idle(self) -> None:
        return


class RestingFactory:
    """Makes resting agents, registered with their owner."""

    async def create_agent(self, owner: Context, options: CreateAgent) -> AgentHandle:
        agent = RestingAgent(owner.root, Session.create(options.session_id))
        undo = owner[AGENTS].register(agent)

        async def dispose() -> None:
            undo()

        return AgentHandle(agent, dispose)

    async def resume_agent(self, owner: Context, options: ResumeAgent) -> AgentHandle:
        return await self.create_agent(owner, CreateAgent(session_id=options.session_id))


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        await ctx.plugin(AgentRegistry)
        yield ctx


@pytest.fixture
async def agent(root: Context) -> RestingAgent:
    return RestingAgent(root, root[SESSIONS].create("a"))


@pytest.fixture
def new_agent(root: Context) -> Callable[[str], RestingAgent]:
    return lambda name: RestingAgent(root, root[SESSIONS].create(name))


@pytest.fixture
def factory() -> RestingFactory:
    return RestingFactory()


@pytest.fixture
def session_id() -> SessionId:
    return SessionId("made")
