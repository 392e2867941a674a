"""Registers the tool, and notes in the session log what it rolled."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec
from dsh_cordis import Context
from dsh_tools import TOOLS, TOOLS_RESULT, ToolExecuted, ToolSuccess, tool
from msgspec import Meta

from ._records import DICE_ROLLED, DiceRolled

inject = (TOOLS,)  # the plugin starts when this service is there, and stops when it goes


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the row may set. Values that do not fit are refused before `apply` is called."""

    sides: Annotated[int, Meta(ge=2, le=100, description="Sides of the die.")] = 6


def apply(ctx: Context, config: Config) -> None:
    """Register for as long as the plugin is loaded; unloading takes everything away again."""

    @tool
    async def roll(
        count: Annotated[int, Meta(ge=1, le=10, description="How many dice.")] = 1,
    ) -> list[int]:
        """Roll dice and give the number on top of each."""
        return [1 + secrets.randbelow(config.sides) for _ in range(count)]

    def note(executed: ToolExecuted) -> None:
        agent, outcome = executed.execution.agent, executed.outcome
        if executed.execution.name != "roll" or agent is None:
            return
        if isinstance(outcome, ToolSuccess):
            numbers = msgspec.convert(outcome.value, tuple[int, ...])
            rolled = DiceRolled(sides=config.sides, numbers=numbers)
            # Ignorable: the session still opens after the plugin was removed.
            agent.session.append(DICE_ROLLED, rolled, ignorable=True)

    ctx[TOOLS].register(roll)
    ctx.on(TOOLS_RESULT, note)
