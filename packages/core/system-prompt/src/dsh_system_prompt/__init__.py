"""The system prompt, assembled from what plugins register."""

from __future__ import annotations

from ._errors import SystemPromptError
from ._order import UNLISTED_TOOLS
from ._render import (
    join_context_sections,
    render_context_sections,
    render_context_snapshot,
    render_prompt,
)
from ._service import SystemPrompt, SystemPromptConfig
from ._types import (
    SYSTEM_PROMPT,
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_CHANGE,
    AgentRef,
    AssembleContext,
    AssemblePayload,
    Assembly,
    SystemPromptChanged,
    ToolContribution,
)

# More than a dozen: the event and assembly types are what listeners are written in.
__all__ = (
    "SYSTEM_PROMPT",
    "SYSTEM_PROMPT_ASSEMBLE",
    "SYSTEM_PROMPT_CHANGE",
    "UNLISTED_TOOLS",
    "AgentRef",
    "AssembleContext",
    "AssemblePayload",
    "Assembly",
    "SystemPrompt",
    "SystemPromptChanged",
    "SystemPromptConfig",
    "SystemPromptError",
    "ToolContribution",
    "join_context_sections",
    "render_context_sections",
    "render_context_snapshot",
    "render_prompt",
)
