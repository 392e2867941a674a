"""What agents announce and what can be decided about their turns.

All are heard by listeners of the agent's own scope, of the scopes above it, and by unscoped ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec
from dsh_cordis import Emit, Serial, Waterfall
from dsh_llm import LlmCallConfig
from dsh_scope import scope_target

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal, Target
    from dsh_llm import LlmFailure, Message, RetryPolicy

    from ._agent import Agent, AgentStatus

SessionStartSource: TypeAlias = Literal["startup", "resume"]


class AgentCreated(msgspec.Struct, frozen=True):
    """The agent is listed. A listener that raises vetoes it."""

    agent: Agent


class AgentDisposed(msgspec.Struct, frozen=True):
    """The agent is no longer listed; exactly one for each creation that was announced."""

    agent: Agent


class AgentStatusChanged(msgspec.Struct, frozen=True):
    """The driver woke or rests."""

    agent: Agent
    status: AgentStatus


class AgentSessionStart(msgspec.Struct, frozen=True):
    """The agent is complete and can be sent to; `startup` for fresh and seeded sessions."""

    agent: Agent
    source: SessionStartSource


class InboxMessage(msgspec.Struct, frozen=True):
    """A message entered the inbox, or left it without being run."""

    agent: Agent
    message: Message


class InboxClaimed(msgspec.Struct, frozen=True):
    """A message left the inbox for a step of turn `turn`."""

    agent: Agent
    message: Message
    turn: int


class PreStep(msgspec.Struct, frozen=True):
    """A step is proposed; `messages` were claimed for it.

    `next()` enters them, and after them the runtime context if it changed.
    """

    agent: Agent
    messages: tuple[Message, ...]
    turn: int
    step: int
    signal: AbortSignal


class Enter(msgspec.Struct, frozen=True):
    """Open the step with exactly these messages. None on a first step closes the turn."""

    messages: tuple[Message, ...]


class Reject(msgspec.Struct, frozen=True):
    """Do not open the step; the turn ends as blocked and the claimed messages are gone."""


PreStepDecision: TypeAlias = Enter | Reject


class RequestStep(msgspec.Struct, frozen=True):
    """A request is about to be made; runs again for each attempt."""

    agent: Agent
    turn: int
    step: int
    signal: AbortSignal


class RequestFailed(msgspec.Struct, frozen=True):
    """A stream finished with a failure."""

    agent: Agent
    turn: int
    step: int
    provider: str
    failure: LlmFailure
    retry_policy: RetryPolicy | None
    """The route's own policy; None if a stream listener owns the route."""
    signal: AbortSignal


class Retry(msgspec.Struct, frozen=True):
    """Make the request again, in the same step."""


class TurnStopping(msgspec.Struct, frozen=True):
    """The turn would end now; whoever wants it to go on steers or injects a message."""

    agent: Agent
    turn: int
    signal: AbortSignal


class AgentFailed(msgspec.Struct, frozen=True):
    """A turn failed with `error`; aborts are no failures."""

    agent: Agent
    turn: int
    step: int
    """0 before any step."""
    error: BaseException


class _OfAgent(Protocol):
    @property
    def agent(self) -> Agent: ...


def _by_agent(payload: _OfAgent) -> Target:
    return scope_target(payload.agent)


AGENT_CREATED = Emit[AgentCreated]("agent/created", scoped=_by_agent)
"""The agent is in the registry. A listener that raises vetoes it."""
AGENT_DISPOSED = Emit[AgentDisposed]("agent/disposed", scoped=_by_agent, contained=True)
"""The agent left the registry."""
AGENT_STATUS = Emit[AgentStatusChanged]("agent/status", scoped=_by_agent, contained=True)
"""It became running or idle."""
AGENT_SESSION_START = Emit[AgentSessionStart](
    "agent/session-start", scoped=_by_agent, contained=True
)
"""Its session is ready: `startup` or `resume`."""
AGENT_INBOX_INSERTED = Emit[InboxMessage]("agent/inbox/inserted", scoped=_by_agent, contained=True)
"""A message waits in the inbox."""
AGENT_INBOX_DISCARDED = Emit[InboxMessage](
    "agent/inbox/discarded", scoped=_by_agent, contained=True
)
"""A waiting message was dropped without having run."""
AGENT_INBOX_CLAIMED = Emit[InboxClaimed]("agent/inbox/claimed", scoped=_by_agent, contained=True)
"""A turn took a waiting message; it belongs to a step now."""
AGENT_PRE_STEP = Waterfall[PreStepDecision, PreStep]("agent/pre-step", scoped=_by_agent)
"""Before each step: `Enter(messages)`, or `Reject()` to end the turn as blocked."""
AGENT_REQUEST = Waterfall[LlmCallConfig, RequestStep]("agent/request", scoped=_by_agent)
"""Before each attempt of a request: what is asked of the model."""
AGENT_REQUEST_ERROR = Waterfall[Retry | None, RequestFailed](
    "agent/request-error", scoped=_by_agent
)
"""A stream finished with a failure: `Retry()` makes the request again, None gives up."""
AGENT_TURN_STOPPING = Serial[None, TurnStopping]("agent/turn-stopping", scoped=_by_agent)
"""The turn would end now; a message that is steered or injected makes it go on."""
AGENT_ERROR = Emit[AgentFailed]("agent/error", scoped=_by_agent, contained=True)
"""A turn failed; aborts are no failures."""
