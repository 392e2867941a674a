"""A plugin as a module: it keeps one note while it is mounted."""

from __future__ import annotations

from dsh_cordis import Context
from notes import NOTES, Note

inject = (NOTES,)


async def apply(ctx: Context, config: str) -> None:
    await ctx[NOTES].add(Note(config))
