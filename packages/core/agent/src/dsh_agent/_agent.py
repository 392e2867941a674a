"""The handle of a running agent: what everybody but its driver sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from dsh_scope import scope_chain_of, scope_of
from dsh_system_prompt import AssembleContext

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal, Context
    from dsh_llm import Message, SessionId
    from dsh_session import AbortCause, Session

    from ._inbox import Inbox

AgentStatus: TypeAlias = Literal["idle", "running"]
InboxTarget: TypeAlias = Literal["next-turn", "next-step"]
"""Which list of the inbox a message waits in."""


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent starts with. Absent parts are for a model selection to fill."""

    provider: str | None = None
    """A provider route, such as `deepseek-official`."""
    model: str | None = None
    max_tokens: int | None = None
    """Output tokens of one request, 1 to 2^53-1; None leaves it to the adapter."""


class Agent(ABC):
    """One agent: a session, an inbox and a driver that runs turns over them.

    There is no completion for a single message: its id proves that it was inserted, claimed or
    discarded, nothing more. `when_idle` tells when the driver rests.
    """

    id: SessionId
    """The session's id."""
    options: AgentOptions
    """The very object given at creation."""
    session: Session
    inbox: Inbox
    ctx: Context
    """The agent's own scope: what is registered through it is seen by this agent alone."""

    @property
    @abstractmethod
    def status(self) -> AgentStatus:
        """`running` while a driver works; one running interval may span many turns."""

    @abstractmethod
    def send(self, message: Message, target: InboxTarget, *, wakeup: bool = True) -> None:
        """Queue `message`; with `wakeup`, an idle agent has opened a turn when this returns.

        Raises what the durable append raises; then nothing was queued.
        """

    @abstractmethod
    def cancel(self, cause: AbortCause, *, keep_inbox: bool = False) -> None:
        """Drop what is pending (unless `keep_inbox`) and abort the open turn; first cause wins.

        Cooperative: the turn ends when its work noticed. An idle agent has nothing to abort.
        """

    @abstractmethod
    async def when_idle(self) -> None:
        """Return once the driver rests, following wakes that come meanwhile. Never raises."""

    def followup(self, message: Message) -> None:
        """Queue for a turn of its own and wake."""
        self.send(message, "next-turn")

    def steer(self, message: Message) -> None:
        """Queue for the next step, of the running turn or else of a new one, and wake."""
        self.send(message, "next-step")

    def inject(self, message: Message) -> None:
        """Queue for the next step without waking anyone."""
        self.send(message, "next-step", wakeup=False)


def agent_of(ctx: Context) -> Agent | None:
    """The agent in whose scope `ctx` stands; None outside of every agent."""
    key = scope_of(ctx)
    if key is None or isinstance(key, Agent):
        return key
    return next((above for above in scope_chain_of(key) if isinstance(above, Agent)), None)


def assemble_context_for(agent: Agent, signal: AbortSignal | None = None) -> AssembleContext:
    """What a prompt of `agent` is assembled for."""
    return AssembleContext(scope=agent, signal=signal, agent=agent)
