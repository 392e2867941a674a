"""The row of the loop: gives the agent registry its factory and starts configured agents."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar

import msgspec
from dsh_agent import AGENTS, INBOX_SPLICED, Agent, AgentOptions, CreateAgent, ResumeAgent
from dsh_cordis import AbortController, Disposer, Emit, Service, ServiceKey
from dsh_llm import LLM, SessionId
from dsh_session import SESSIONS, SessionMeta
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_system_prompt import SYSTEM_PROMPT
from dsh_tools import TOOLS
from msgspec import UNSET

from ._config import AgentLoopConfig, ConfiguredAgent, check_agents
from ._factory import LoopFactory
from ._seams import Seams

if TYPE_CHECKING:
    from dsh_cordis import Context
    from dsh_session_persistence import SessionPersistence
    from dsh_system_prompt import AssembleContext

_log = logging.getLogger("dsh.agent_loop")


class ConfigStartFailed(msgspec.Struct, frozen=True):
    """A configured agent could not be started on its stored session."""

    session_id: SessionId
    error: BaseException


AGENT_LOOP = ServiceKey["AgentLoop"]("agent_loop")
CONFIG_START_FAILED = Emit[ConfigStartFailed]("agent-loop/config-start-failed", contained=True)
"""A configured agent could not be started on its stored session."""


class AgentLoop(Service):
    """Runs agents. While it is mounted, `ctx[AGENTS].create` and `resume` work.

    Contributes the prompt variables `provider`, `model` (the agent's options) and `cwd`.
    """

    provides = AGENT_LOOP
    inject = (AGENTS, SESSIONS, LLM, TOOLS, SYSTEM_PROMPT)
    Config: ClassVar[type | None] = AgentLoopConfig
    name = "dsh-agent-loop"

    def __init__(self, ctx: Context, config: AgentLoopConfig) -> None:
        super().__init__(ctx, config)
        check_agents(config.agents)
        self._config = config
        self._factory = LoopFactory(
            Seams(
                host=ctx,
                agents=ctx[AGENTS],
                sessions=ctx[SESSIONS],
                llm=ctx[LLM],
                tools=ctx[TOOLS],
                prompts=ctx[SYSTEM_PROMPT],
                max_parallel_tool_calls=config.max_parallel_tool_calls,
            )
        )

    async def start(self) -> AsyncIterator[Disposer]:
        """Become the factory, then start what is configured."""
        # Every stored session holds inbox events; known by name, a resume searches no entry points.
        self.own[SESSIONS].types.register(INBOX_SPLICED)
        yield self.own[AGENTS].set_factory(self._factory)
        prompts = self.own[SYSTEM_PROMPT]
        yield prompts.variable("provider", lambda context: _options(context).provider)
        yield prompts.variable("model", lambda context: _options(context).model)
        yield prompts.variable("cwd", _cwd)
        yield self._factory.dispose_all
        for entry in self._config.agents:
            await self._start(entry)

    async def _start(self, entry: ConfiguredAgent) -> None:
        """Start one entry. Only a fresh session is waited for: a store may not be there yet."""
        if entry.identity is None:
            await self._create(entry, SessionId(f"{entry.id}-session-{uuid.uuid4()}"))
        elif entry.resume_session_id or self.own.get(SESSION_PERSISTENCE) is not None:
            self.own.inject((SESSION_PERSISTENCE,), lambda ctx: self._start_stored(ctx, entry))
        else:
            await self._create(entry, SessionId(entry.identity))

    def _start_stored(self, ctx: Context, entry: ConfiguredAgent) -> None:
        creation = AbortController()
        ctx.spawn(self._resume, ctx, entry, creation, stop=creation.abort, name="agent start")

    async def _resume(
        self, ctx: Context, entry: ConfiguredAgent, creation: AbortController
    ) -> None:
        session_id = SessionId(entry.identity or "")
        if self.own[AGENTS].get(session_id) is not None:
            return  # the store came back, the agent was never gone
        resume = ResumeAgent(
            session_id=session_id, agent_options=_agent_options(entry), signal=creation.signal
        )
        try:
            if entry.resume_session_id or await _is_stored(ctx[SESSION_PERSISTENCE], session_id):
                await self._factory.resume_agent(self.own, resume)
            else:
                await self._create(entry, session_id)
        except Exception as error:  # noqa: BLE001 - containment: one agent that cannot start must not end the loop
            if creation.signal.aborted:
                return
            _log.warning("agent %r could not be started", entry.id, exc_info=True)
            self.own.emit(CONFIG_START_FAILED, ConfigStartFailed(session_id, error))

    async def _create(self, entry: ConfiguredAgent, session_id: SessionId) -> None:
        create = CreateAgent(
            session_id=session_id,
            agent_options=_agent_options(entry),
            meta=SessionMeta(cwd=entry.cwd),
        )
        await self._factory.create_agent(self.own, create)


async def _is_stored(persistence: SessionPersistence, session_id: SessionId) -> bool:
    return any(header.id == session_id for header in await persistence.list())


def _agent_options(entry: ConfiguredAgent) -> AgentOptions:
    return AgentOptions(provider=entry.provider, model=entry.model, max_tokens=entry.max_tokens)


def _options(context: AssembleContext) -> AgentOptions:
    agent = context.agent
    return agent.options if isinstance(agent, Agent) else AgentOptions()


def _cwd(context: AssembleContext) -> str | None:
    if context.agent is None:
        return None
    cwd = context.agent.session.header.cwd
    return None if cwd is UNSET else cwd
