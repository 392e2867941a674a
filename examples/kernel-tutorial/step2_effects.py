"""What a plugin registers is undone when the plugin unloads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from dsh_cordis import Context, Disposer


@asynccontextmanager
async def connection(name: str) -> AsyncGenerator[str, None]:
    print(f"open {name}")
    yield name
    print(f"close {name}")


async def apply(ctx: Context, _config: object) -> AsyncIterator[Disposer]:
    ctx.effect(lambda: lambda: print("undo the effect"))  # setup returns its undoing
    yield lambda: print("undo first")
    yield lambda: print("undo second")
    name = await ctx.host(connection("a"))
    ctx.spawn(work, name)


async def work(name: str) -> None:
    try:
        print(f"work with {name}")
        await asyncio.Event().wait()
    finally:
        print("stop work")


async def main() -> None:
    async with Context() as root:
        fiber = await root.plugin(apply)
        print([effect.label for effect in fiber.get_effects()])
        await asyncio.sleep(0)  # the spawned task begins
        print("dispose")
        await fiber.dispose()
        print("disposed")


asyncio.run(main())
