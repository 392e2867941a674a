"""A plugin is a function; mounting it makes a fiber."""

from __future__ import annotations

import asyncio

from dsh_cordis import Context


async def hello(_ctx: Context, config: str) -> None:
    print(f"hello {config}")


def broken(_ctx: Context, _config: object) -> None:
    raise ValueError("no paper")


async def main() -> None:
    async with Context() as root:
        fiber = root.plugin(hello, "world")
        print(fiber.name, fiber.state.name)  # its body runs one tick later
        await fiber
        print(fiber.name, fiber.state.name)
        try:
            await root.plugin(broken)
        except ValueError as error:
            print(f"broken: {error}")
        print(fiber.name, fiber.state.name)  # a neighbour's failure is not its own
    print(fiber.name, fiber.state.name)  # leaving the root disposed everything


asyncio.run(main())
