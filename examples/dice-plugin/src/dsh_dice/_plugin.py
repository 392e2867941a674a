"""Registers the tool."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec
from dsh_cordis import Context
from dsh_tools import TOOLS, tool
from msgspec import Meta

inject = (TOOLS,)  # the plugin starts when this service is there, and stops when it goes


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the row may set."""

    sides: Annotated[int, Meta(ge=2, le=100, description="Sides of the die.")] = 6


def apply(ctx: Context, config: Config) -> None:
    """Register for as long as the plugin is loaded; unloading takes the tool away again."""

    @tool
    async def roll(
        count: Annotated[int, Meta(ge=1, le=10, description="How many dice.")] = 1,
    ) -> list[int]:
        """Roll dice and give the number on top of each."""
        return [1 + secrets.randbelow(config.sides) for _ in range(count)]

    ctx[TOOLS].register(roll)
