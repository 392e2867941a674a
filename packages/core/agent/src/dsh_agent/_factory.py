"""What it takes to make an agent, and who makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from ._agent import Agent, AgentOptions

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal, Context
    from dsh_llm import SessionId
    from dsh_session import SessionEvent, SessionMeta


class Commit(Protocol):
    """What a setup may return: `commit` runs when nothing can refuse the agent any more."""

    def commit(self) -> None: ...


Setup: TypeAlias = "Callable[[Context], Commit | Awaitable[Commit | None] | None]"
"""Composes an agent through its own context before it is published; it must not send to it."""


class CreateAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A new agent on a fresh or seeded session."""

    session_id: SessionId
    agent_options: AgentOptions = msgspec.field(default_factory=AgentOptions)
    meta: SessionMeta | None = None
    seed: Sequence[SessionEvent[Any]] | None = None
    """Events that the session starts with."""
    signal: AbortSignal | None = None
    """Stops the creation; has no effect once it returned."""
    setup: Setup | None = None


class ResumeAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent on a stored session."""

    session_id: SessionId
    agent_options: AgentOptions = msgspec.field(default_factory=AgentOptions)
    signal: AbortSignal | None = None
    setup: Setup | None = None


class AgentHandle(msgspec.Struct, frozen=True):
    """An agent and the right to end it; the registry never gives out the disposer."""

    agent: Agent
    dispose: Callable[[], Awaitable[None]]
    """Ends the agent and returns when nothing of it is left. Calling it again joins."""


class AgentFactory(Protocol):
    """Makes agents. `owner` is the context whose unload ends them."""

    async def create_agent(self, owner: Context, options: CreateAgent, /) -> AgentHandle: ...

    async def resume_agent(self, owner: Context, options: ResumeAgent, /) -> AgentHandle: ...
