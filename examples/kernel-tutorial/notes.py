"""A service that keeps notes, its key, and the events around it."""

from __future__ import annotations

import msgspec
from dsh_cordis import Context, Disposer, Emit, Service, ServiceKey, Waterfall


class Note(msgspec.Struct, frozen=True):
    """One note."""

    text: str


NOTES = ServiceKey["Notes"]("notes")
NOTE_CHECK = Waterfall[Note, Note]("notes/check")
"""Around each note before it is kept: return another to change it, raise to refuse it."""
NOTE_ADDED = Emit[Note]("notes/added", contained=True)
"""After a note was kept."""


class Notes(Service):
    """Keeps each note for as long as the plugin that added it is mounted."""

    provides = NOTES

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        self._kept: list[Note] = []

    async def add(self, note: Note) -> Disposer:
        """Keep a note for the caller. The result takes it out before the caller ends."""

        async def unchanged() -> Note:
            return note

        checked = await self.own.waterfall(NOTE_CHECK, note, inner=unchanged)

        def keep() -> Disposer:
            self._kept.append(checked)
            return lambda: self._kept.remove(checked)

        kept = self.ctx.effect(keep, "note")  # self.ctx: the effect is the caller's
        self.own.emit(NOTE_ADDED, checked)
        return kept

    def texts(self) -> list[str]:
        """What is kept, oldest first."""
        return [note.text for note in self._kept]
