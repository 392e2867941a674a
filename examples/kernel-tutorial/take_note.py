"""A tool of the agent that keeps notes."""

from __future__ import annotations

from dsh_cordis import Context
from dsh_tools import TOOLS, tool
from notes import NOTES, Note

inject = (NOTES, TOOLS)


def apply(ctx: Context, _config: object) -> None:
    notes = ctx[NOTES]

    @tool
    async def take_note(text: str) -> str:
        """Keep a note for later."""
        await notes.add(Note(text))
        return f"{len(notes.texts())} kept"

    ctx[TOOLS].register(take_note)
