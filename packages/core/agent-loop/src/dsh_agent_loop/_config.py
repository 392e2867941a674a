"""What the loop can be configured with."""

from __future__ import annotations

from typing import Annotated

import msgspec
from dsh_cordis import ConfigError
from msgspec import Meta


class ConfiguredAgent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An agent that is there from the start."""

    id: Annotated[
        str, Meta(min_length=1, description="Label; a new session is called `<id>-session-<uuid>`.")
    ]
    session_id: Annotated[
        str | None, Meta(description="Exact session: resumed if it is stored, else created.")
    ] = None
    resume_session_id: Annotated[
        str | None,
        Meta(description="Exact session that must be stored; waits for a store. Empty is absent."),
    ] = None
    provider: Annotated[str | None, Meta(description="Provider route of its model.")] = None
    model: Annotated[str | None, Meta(description="Model id.")] = None
    max_tokens: (
        Annotated[int, Meta(ge=1, le=2**53 - 1, description="Output tokens of one request.")] | None
    ) = None
    cwd: Annotated[str | None, Meta(description="Absolute working directory of a new session.")] = (
        None
    )

    @property
    def identity(self) -> str | None:
        """The exact session that the entry names, if it does."""
        return self.session_id or self.resume_session_id or None


class AgentLoopConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Configuration of the row `dsh-agent-loop`."""

    max_parallel_tool_calls: Annotated[
        int, Meta(ge=1, description="Bodies of calls of one step that run at once.")
    ] = 10
    agents: Annotated[
        tuple[ConfiguredAgent, ...], Meta(description="Agents that are there from the start.")
    ] = ()


def check_agents(entries: tuple[ConfiguredAgent, ...]) -> None:
    """Raise `ConfigError` for entries that name no session clearly, or the same one twice."""
    seen: set[str] = set()
    for entry in entries:
        if entry.session_id is not None and not entry.session_id:
            raise ConfigError(f"agents: {entry.id!r} has an empty sessionId")
        if entry.session_id and entry.resume_session_id:
            raise ConfigError(
                f"agents: {entry.id!r} has both sessionId and resumeSessionId: keep one"
            )
        if entry.identity is None:
            continue
        if entry.identity in seen:
            raise ConfigError(f"agents: two entries name the session {entry.identity!r}")
        seen.add(entry.identity)
