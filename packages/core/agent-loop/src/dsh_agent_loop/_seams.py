"""What a driver works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from dsh_agent import AgentRegistry
    from dsh_cordis import Context
    from dsh_llm import LlmRuntime
    from dsh_session import SessionStore
    from dsh_system_prompt import SystemPrompt
    from dsh_tools import ToolRegistry


class Seams(msgspec.Struct, frozen=True, kw_only=True):
    """The loop's context and services. They live at least as long as any driver does."""

    host: Context
    """The loop's own context: it owns the drivers and dispatches their events."""
    agents: AgentRegistry
    sessions: SessionStore
    llm: LlmRuntime
    tools: ToolRegistry
    prompts: SystemPrompt
    max_parallel_tool_calls: int
