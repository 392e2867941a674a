"""The service that knows all agents and has new ones made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dsh_cordis import NoConfig, Service, ServiceKey

from ._agent import Agent, agent_of
from ._errors import AgentError
from ._events import AGENT_CREATED, AGENT_DISPOSED, AgentCreated, AgentDisposed
from ._factory import AgentFactory, AgentHandle, CreateAgent, ResumeAgent
from ._initiator import InitiatorScope

if TYPE_CHECKING:
    from collections.abc import Generator

    from dsh_cordis import Context, Disposer
    from dsh_llm import SessionId

T = TypeVar("T")

AGENTS = ServiceKey["AgentRegistry"]("agents")


class _Entry:
    """One listed agent. `announcing` defers a detach until every listener has seen the creation."""

    __slots__ = ("agent", "announced", "announcing", "detach_wanted", "owner")

    def __init__(self, agent: Agent, owner: Agent | None) -> None:
        self.agent = agent
        self.owner = owner
        self.announced = self.announcing = self.detach_wanted = False


class AgentRegistry(Service):
    """All live agents, in the order they were entered, and the factory that makes new ones.

    An agent made through `parent.ctx` is owned by that parent: it ends with it. Ownership is a
    fact of this process; `header.parent_session` is the lineage of logs and independent of it.
    """

    provides = AGENTS
    Config = NoConfig
    name = "dsh-agent"

    def __init__(self, ctx: Context, config: NoConfig | None = None) -> None:
        super().__init__(ctx, config)
        self._entries: dict[SessionId, _Entry] = {}
        self._factory: AgentFactory | None = None
        self._initiator = InitiatorScope()

    def start(self) -> Generator[Disposer, None, None]:
        """End the initiator scope with the service."""
        yield self._initiator.close

    def get(self, agent_id: SessionId) -> Agent | None:
        """The live agent of that id."""
        entry = self._entries.get(agent_id)
        return entry.agent if entry else None

    def list(self) -> tuple[Agent, ...]:
        """All live agents, in registration order."""
        return tuple(entry.agent for entry in self._entries.values())

    def roots(self) -> tuple[Agent, ...]:
        """Live agents that no other agent owns."""
        return tuple(e.agent for e in self._entries.values() if e.owner is None)

    def is_owned_by(self, agent_id: SessionId, owner: Agent) -> bool:
        """Whether `agent_id` is live and was made by exactly `owner`."""
        entry = self._entries.get(agent_id)
        return entry is not None and entry.owner is owner

    def register(self, agent: Agent) -> Disposer:
        """Enter and announce `agent`; it leaves with the caller, whose agent becomes its owner.

        Raises what `enter` and a vetoing listener raise; then nothing stays listed.
        """
        owner = agent_of(self.ctx)

        def setup() -> Callable[[], None]:
            detach = self.enter(agent, owner)
            try:
                self.announce(agent)
            except BaseException:
                detach()
                raise
            return detach

        return self.ctx.effect(setup, f"agents.register({agent.id!r})")

    def enter(self, agent: Agent, owner: Agent | None) -> Callable[[], None]:
        """List `agent` silently. Returns what takes it off the list again, once.

        Raises `AgentError`: `ID_MISMATCH` if its id is not its session's, `ID_TAKEN`.
        """
        if agent.id != agent.session.id:
            raise AgentError(
                f"agent {agent.id!r} runs session {agent.session.id!r}: the ids must be equal",
                code="ID_MISMATCH",
            )
        if agent.id in self._entries:
            raise AgentError(f"an agent {agent.id!r} is live already", code="ID_TAKEN")
        entry = self._entries[agent.id] = _Entry(agent, owner)
        return lambda: self._detach(entry)

    def announce(self, agent: Agent) -> None:
        """Tell of an entered agent, once. A listener that raises vetoes: the caller rolls back.

        Raises `AgentError` (`NOT_ENTERED`, `ALREADY_ANNOUNCED`) or what the listener raised.
        """
        entry = self._entries.get(agent.id)
        if entry is None or entry.agent is not agent:
            raise AgentError(f"agent {agent.id!r} is not entered", code="NOT_ENTERED")
        if entry.announced:
            raise AgentError(f"agent {agent.id!r} was announced before", code="ALREADY_ANNOUNCED")
        # Marked first: a creation that only some listeners saw is still paired with a disposal.
        entry.announced = entry.announcing = True
        try:
            self.own.emit(AGENT_CREATED, AgentCreated(agent))
        finally:
            entry.announcing = False
            if entry.detach_wanted:
                self._remove(entry)

    def set_factory(self, factory: AgentFactory) -> Disposer:
        """Make `factory` the one that creates agents, for as long as the caller lives.

        Raises `AgentError` (`FACTORY_TAKEN`) if there is one.
        """
        if self._factory is not None:
            raise AgentError("agents have a factory already", code="FACTORY_TAKEN")

        def setup() -> Callable[[], None]:
            self._factory = factory
            return self._forget_factory

        return self.ctx.effect(setup, "agents.set_factory")

    async def create(self, options: CreateAgent) -> AgentHandle:
        """Make an agent on a new session; it ends with the caller.

        Raises `AgentError` (`NO_FACTORY`) without a loop, and what validation, setup or a vetoing
        listener raised; then nothing is left and the id is free.
        """
        return await self._made_by().create_agent(self.ctx, options)

    async def resume(self, options: ResumeAgent) -> AgentHandle:
        """Make an agent on a stored session; it ends with the caller. Raises as `create`."""
        return await self._made_by().resume_agent(self.ctx, options)

    def current_initiator(self) -> Agent | None:
        """The agent that started the running chain of calls, if one did."""
        return self._initiator.current()

    def require_initiator(self) -> Agent:
        """As `current_initiator`. Raises `AgentError` (`NO_INITIATOR`) outside of every agent."""
        agent = self._initiator.current()
        if agent is None:
            raise AgentError("no agent started this work", code="NO_INITIATOR")
        return agent

    def with_initiator(self, agent: Agent, operation: Callable[[], T]) -> T:
        """Call `operation` with `agent` as initiator, its coroutine included."""
        return self._initiator.run(agent, operation)

    def without_initiator(self, operation: Callable[[], T]) -> T:
        """Call `operation` with no initiator, its coroutine included."""
        return self._initiator.run(None, operation)

    def _forget_factory(self) -> None:
        self._factory = None

    def _made_by(self) -> AgentFactory:
        if self._factory is None:
            raise AgentError("no factory makes agents: mount dsh-agent-loop", code="NO_FACTORY")
        return self._factory

    def _detach(self, entry: _Entry) -> None:
        if entry.announcing:
            entry.detach_wanted = True
        else:
            self._remove(entry)

    def _remove(self, entry: _Entry) -> None:
        # An old detach must not take off a later agent of the same id.
        if self._entries.get(entry.agent.id) is not entry:
            return
        del self._entries[entry.agent.id]
        if entry.announced:
            self.own.emit(AGENT_DISPOSED, AgentDisposed(entry.agent))
