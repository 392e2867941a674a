"""Configuration is checked before a plugin runs, and again before it changes."""

from __future__ import annotations

import asyncio

import editor
import writer
from dsh_cordis import ConfigError, Context
from notes import NOTES, Notes


async def main() -> None:
    async with Context() as root:
        await root.plugin(Notes)
        editing = await root.plugin(editor, {"maxLength": 8})
        await root.plugin(writer, "buy two bottles of milk")

        for wrong in ({"maxLength": 0}, {"maxLenght": 4}):
            try:
                await editing.update(wrong)
            except ConfigError as error:
                print(error)
        print(editing.state.name, editing.config.max_length)  # as it was

        await editing.update({"maxLength": 3, "mark": "!"})
        await root.plugin(writer, "buy six eggs")
        print(root[NOTES].texts())


asyncio.run(main())
