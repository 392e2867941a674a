"""For tests of agents: a scripted model, an agent in three lines, a check for leaks."""

from __future__ import annotations

from ._kit import AgentKit, TurnEndedError, agent_kit, final_text, mount_agent_services
from ._leaks import assert_no_leaks
from ._script import (
    Call,
    ScriptedAdapter,
    call_reply,
    capped_reply,
    failed_reply,
    text_reply,
)

__all__ = (
    "AgentKit",
    "Call",
    "ScriptedAdapter",
    "TurnEndedError",
    "agent_kit",
    "assert_no_leaks",
    "call_reply",
    "capped_reply",
    "failed_reply",
    "final_text",
    "mount_agent_services",
    "text_reply",
)
