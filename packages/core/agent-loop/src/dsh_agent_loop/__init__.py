"""The loop: turns queued input into model requests and tool calls."""

from __future__ import annotations

from ._config import AgentLoopConfig, ConfiguredAgent
from ._service import AGENT_LOOP, CONFIG_START_FAILED, AgentLoop, ConfigStartFailed

__all__ = (
    "AGENT_LOOP",
    "CONFIG_START_FAILED",
    "AgentLoop",
    "AgentLoopConfig",
    "ConfigStartFailed",
    "ConfiguredAgent",
)
