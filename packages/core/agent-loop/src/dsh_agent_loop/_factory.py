"""How an agent comes to be and how it ends: all of it, or nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from dsh_agent import (
    AGENT_SESSION_START,
    Agent,
    AgentError,
    AgentHandle,
    AgentOptions,
    AgentSessionStart,
    agent_of,
)
from dsh_cordis import AbortController
from dsh_scope import create_scope
from dsh_session import SESSIONS, SessionPreparation
from dsh_session_persistence import SESSION_PERSISTENCE

from ._driver import LoopAgent

if TYPE_CHECKING:
    from dsh_agent import (
        AgentRegistry,
        Commit,
        CreateAgent,
        ResumeAgent,
        SessionStartSource,
        Setup,
    )
    from dsh_cordis import AbortSignal, Context
    from dsh_llm import SessionId
    from dsh_scope import Scope

    from ._seams import Seams

_log = logging.getLogger("dsh.agent_loop")

_MAX_TOKENS = 2**53 - 1


class Lifecycle:
    """One agent's resources, undone in order and once, whoever asks first.

    Registered with the owner before any resource exists, so that nothing can be left behind.
    """

    def __init__(
        self,
        owner: Context,
        agents: AgentRegistry,
        session_id: SessionId,
        on_gone: Callable[[Lifecycle], None],
    ) -> None:
        """Raises `CordisError` (`INACTIVE_EFFECT`) for an owner that is unloading."""
        self.creation = AbortController()
        self.agent: LoopAgent | None = None
        self.scope: Scope | None = None
        self.detach: list[Callable[[], object]] = []
        """Takes agent and session off their lists, in this order."""
        self._id = session_id
        self._agents = agents
        self._on_gone = on_gone
        self._gone = anyio.Event()
        label = f"agent_loop.lifecycle({session_id!r})"
        self._undo = owner.effect(lambda: self._begin_end, label)

    @property
    def signal(self) -> AbortSignal:
        """Aborts the creation; it means nothing once the agent is published."""
        return self.creation.signal

    async def dispose(self) -> None:
        """As `end`, for the handle.

        Raises `AgentError` (`SELF_DISPOSAL`) inside the agent's own turn, which would wait for
        itself; start it with `ctx.spawn` there.
        """
        if self._inside():
            raise AgentError(
                f"agent {self._id!r} cannot await its own end from inside its turn",
                code="SELF_DISPOSAL",
            )
        await self.end()

    async def end(self) -> None:
        """Undo everything and return when that is done, whoever began it."""
        self._undo()
        await self._gone.wait()

    def _inside(self) -> bool:
        try:
            return self.agent is not None and self._agents.current_initiator() is self.agent
        except AgentError:  # the registry is gone, and no turn of ours can be running
            return False

    def _begin_end(self) -> Awaitable[None]:
        # Not in the task that goes on from here: from now on nothing may be published or wake.
        self.creation.abort(AgentError(f"agent {self._id!r} was disposed", code="AGENT_DISPOSED"))
        if self.agent is not None:
            self.agent.close()
        return self._finish_end()

    async def _finish_end(self) -> None:
        try:
            if self.agent is not None:
                await self.agent.when_idle()
            if self.scope is not None:
                await self.scope.dispose()
        finally:
            for detach in self.detach:
                detach()
            if self.agent is not None:
                self.agent.leave()
            self._on_gone(self)
            self._gone.set()


class LoopFactory:
    """Makes agents for the registry, and ends those that are left when the loop unloads."""

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self._live: set[Lifecycle] = set()
        self._closing = False

    async def create_agent(self, owner: Context, options: CreateAgent) -> AgentHandle:
        """As `AgentRegistry.create`."""

        async def prepare(_signal: AbortSignal) -> SessionPreparation:
            session = self._seams.sessions.prepare(
                options.session_id, seed=options.seed, meta=options.meta
            )
            return SessionPreparation(session)

        return await self._make(owner, options, "startup", prepare)

    async def resume_agent(self, owner: Context, options: ResumeAgent) -> AgentHandle:
        """As `AgentRegistry.resume`. Raises `AgentError` (`NO_PERSISTENCE`) without a store."""

        async def prepare(signal: AbortSignal) -> SessionPreparation:
            persistence = self._seams.host.get(SESSION_PERSISTENCE)
            if persistence is None:
                raise AgentError(
                    "sessions are not stored here: mount a session persistence to resume one",
                    code="NO_PERSISTENCE",
                )
            return await persistence.prepare(options.session_id, signal)

        return await self._make(owner, options, "resume", prepare)

    async def dispose_all(self) -> None:
        """End every agent and every creation, and make no more."""
        self._closing = True
        async with anyio.create_task_group() as endings:
            for lifecycle in tuple(self._live):
                endings.start_soon(lifecycle.end)

    async def _make(
        self,
        owner: Context,
        options: CreateAgent | ResumeAgent,
        source: SessionStartSource,
        prepare: Callable[[AbortSignal], Awaitable[SessionPreparation]],
    ) -> AgentHandle:
        _check_options(options.agent_options)
        if options.signal is not None:
            options.signal.throw_if_aborted()
        if self._closing:
            raise AgentError("the agent loop is unloading", code="LOOP_UNLOADING")
        if self._seams.agents.get(options.session_id) is not None:
            raise AgentError(f"an agent {options.session_id!r} is live already", code="ID_TAKEN")
        async with self._lifecycle(owner, options) as lifecycle:
            with await prepare(lifecycle.signal) as preparation:
                lifecycle.signal.throw_if_aborted()
                agent = self._build(lifecycle, preparation, options.agent_options)
                commit = await _set_up(agent, options.setup, lifecycle.signal)
                if commit is not None:
                    commit.commit()
                self._publish(lifecycle, agent, owner, source)
        return AgentHandle(agent, lifecycle.dispose)

    @asynccontextmanager
    async def _lifecycle(
        self, owner: Context, options: CreateAgent | ResumeAgent
    ) -> AsyncGenerator[Lifecycle]:
        """A lifecycle that follows the caller's signal inside the block, and ends if that fails."""
        agents, session_id = self._seams.agents, options.session_id
        lifecycle = Lifecycle(owner, agents, session_id, self._live.discard)
        self._live.add(lifecycle)
        unfollow = _follow(options.signal, lifecycle.creation)
        try:
            yield lifecycle
        except BaseException:
            with anyio.CancelScope(shield=True):
                await lifecycle.end()
            raise
        finally:
            unfollow()

    def _build(
        self, lifecycle: Lifecycle, preparation: SessionPreparation, options: AgentOptions
    ) -> LoopAgent:
        agent = LoopAgent(preparation.session, options, self._seams)
        lifecycle.scope = create_scope(self._seams.host, agent)
        agent.enter_scope(lifecycle.scope.ctx)
        lifecycle.agent = agent
        return agent

    def _publish(
        self, lifecycle: Lifecycle, agent: LoopAgent, owner: Context, source: SessionStartSource
    ) -> None:
        """Enter both registries, then tell. Whoever hears may end it again, hence the checks."""
        self._check_wanted(lifecycle, owner)
        # Entered through the agent's context, so that its scope hears the session's events.
        sessions = agent.ctx[SESSIONS]
        lifecycle.detach.append(sessions.enter(agent.session))
        lifecycle.detach.insert(0, self._seams.agents.enter(agent, agent_of(owner)))
        sessions.announce(agent.session)
        self._check_wanted(lifecycle, owner)
        self._seams.agents.announce(agent)
        self._check_wanted(lifecycle, owner)
        self._seams.host.emit(AGENT_SESSION_START, AgentSessionStart(agent, source))
        self._check_wanted(lifecycle, owner)

    def _check_wanted(self, lifecycle: Lifecycle, owner: Context) -> None:
        """Raise if the creation was aborted, or if an unload of owner or loop has begun."""
        lifecycle.signal.throw_if_aborted()
        owner.fiber.check_active()
        self._seams.host.fiber.check_active()


async def _set_up(agent: Agent, setup: Setup | None, signal: AbortSignal) -> Commit | None:
    """Run the caller's setup in its own task, so that it sees the caller's initiator."""
    if setup is None:
        return None
    commit = None
    # The setup is a call of ours, so it is ours to give up when the creation is lost.
    with anyio.CancelScope() as scope:
        unfollow = signal.on_abort(scope.cancel)
        try:
            result = setup(agent.ctx)
            commit = await result if inspect.isawaitable(result) else result
        finally:
            unfollow()
    signal.throw_if_aborted()
    return commit


def _follow(signal: AbortSignal | None, creation: AbortController) -> Callable[[], None]:
    if signal is None:
        return lambda: None
    return signal.on_abort(lambda: creation.abort(signal.reason))


def _check_options(options: AgentOptions) -> None:
    limit = options.max_tokens
    if limit is None:
        return
    if type(limit) is not int or not 1 <= limit <= _MAX_TOKENS:
        raise TypeError(f"max_tokens is {limit!r}, expected an integer from 1 to {_MAX_TOKENS}")
