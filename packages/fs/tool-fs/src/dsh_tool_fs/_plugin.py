"""Registers the tools and their guidance."""

from __future__ import annotations

from typing import Final

from dsh_cordis import Context
from dsh_fs import FS
from dsh_system_prompt import SYSTEM_PROMPT
from dsh_tools import TOOLS

from ._change import edit_tool, write_tool
from ._config import Config
from ._read import read_tool

inject = (FS, SYSTEM_PROMPT, TOOLS)

GUIDANCE: Final = {
    "tool:read": (
        100,
        "Read files with read rather than cat. Long files come in parts: go on with offset.",
    ),
    "tool:write": (
        101,
        "Use write for new files and whole rewrites. Read a file before you replace it.",
    ),
    "tool:edit": (
        102,
        "Use edit for changes in place. Read the file first, then name the text exactly as it is, "
        "with enough around it to occur only once.",
    ),
}


def apply(ctx: Context, config: Config) -> None:
    """Register for as long as the plugin is loaded."""
    tools = ctx[TOOLS]
    for definition in (read_tool(ctx, config), write_tool(ctx), edit_tool(ctx)):
        tools.register(definition)
    for name, (order, text) in GUIDANCE.items():
        ctx[SYSTEM_PROMPT].section(name, order=order, text=text)
