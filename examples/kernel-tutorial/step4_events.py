"""The class of an event's key is how it is dispatched."""

from __future__ import annotations

import asyncio

import writer
from dsh_cordis import Context, Next
from notes import NOTE_ADDED, NOTE_CHECK, Note, Notes


def announcer(ctx: Context, _config: object) -> None:
    def announce(note: Note) -> None:
        print("added", note.text)

    ctx.on(NOTE_ADDED, announce)


def capitals(ctx: Context, _config: object) -> None:
    async def check(note: Note, next: Next[Note]) -> Note:
        if not note.text:
            raise ValueError("an empty note")  # without next(): nothing further in runs
        checked = await next()  # the listeners further in, and then the note itself
        return Note(checked.text.upper())

    ctx.on(NOTE_CHECK, check)


async def main() -> None:
    async with Context() as root:
        for plugin in (Notes, announcer):
            await root.plugin(plugin)
        await root.plugin(writer, "buy milk")

        loud = await root.plugin(capitals)
        await root.plugin(writer, "buy eggs")
        try:
            await root.plugin(writer, "")
        except ValueError as error:
            print("refused:", error)

        await loud.dispose()  # and with it its listener
        await root.plugin(writer, "buy bread")


asyncio.run(main())
