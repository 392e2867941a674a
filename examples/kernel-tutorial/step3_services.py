"""Services are read by key; who needs one waits for it."""

from __future__ import annotations

import asyncio

import writer
from dsh_cordis import Context
from notes import NOTES, Notes


def show(ctx: Context, _config: object) -> None:
    notes = ctx.get(NOTES)  # None while there is none
    print(notes.texts() if notes is not None else "no notes service")


async def main() -> None:
    async with Context() as root:
        milk = root.plugin(writer, "buy milk")
        eggs = root.plugin(writer, "buy eggs")
        print("milk", milk.state.name)
        await root.plugin(show)

        provider = await root.plugin(Notes)
        await milk
        await eggs
        await root.plugin(show)

        await milk.dispose()  # takes its note along
        await root.plugin(show)

        await provider.dispose()  # waits until eggs has let go of the service
        print("eggs", eggs.state.name)

        await root.plugin(Notes)
        await eggs  # its body runs again
        await root.plugin(show)


asyncio.run(main())
