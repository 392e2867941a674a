"""Refuses calls by the name of the tool."""

from __future__ import annotations

from typing import Annotated

import msgspec
from dsh_cordis import Context, Next
from dsh_tools import TOOLS, TOOLS_PRE_EXECUTE, Deny, PreDecision, ToolExecution
from msgspec import Meta

inject = (TOOLS,)


class Config(msgspec.Struct, frozen=True, rename="camel"):
    """What the row may set."""

    refuse: Annotated[tuple[str, ...], Meta(description="Names of tools that may not run.")]


def apply(ctx: Context, config: Config) -> None:
    """Decide about each call before it runs."""

    async def decide(call: ToolExecution, next: Next[PreDecision]) -> PreDecision:
        if call.name in config.refuse:
            return Deny(f"this session is read-only; {call.name} is not available")
        return await next()  # let the others decide

    ctx.on(TOOLS_PRE_EXECUTE, decide)
