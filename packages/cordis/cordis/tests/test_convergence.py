"""Whatever is mounted, disposed, restarted and starved in whatever order: everything settles."""

from __future__ import annotations

import asyncio
import random

import pytest
from dsh_cordis import Context, CordisError, Fiber, FiberState, ServiceKey

pytestmark = pytest.mark.anyio

KEYS = [ServiceKey[object](f"service_{number}") for number in range(4)]


class World:
    """Makes random plugins and remembers what they hold."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fibers: list[Fiber] = []
        self.held = 0
        self.running: set[object] = set()

    def plugin(self, depth: int = 0):
        choose = self.random
        needs = tuple(choose.sample(KEYS, choose.choice([0, 0, 1, 2])))
        gives = choose.choice([None, *(key for key in KEYS if key not in needs)])
        fails = choose.random() < 0.1
        child = self.plugin(depth + 1) if depth < 2 and choose.random() < 0.4 else None
        identity = object()

        async def pause() -> None:
            for _ in range(choose.randrange(4)):
                await asyncio.sleep(0)

        def hold(ctx: Context):
            self.held += 1

            def let_go():
                self.held -= 1
                for key in needs:
                    ctx[key]  # still readable in cleanup
                return pause() if choose.random() < 0.3 else None

            return let_go

        async def body(ctx: Context, _config: object):
            assert identity not in self.running, "two activations at once"
            self.running.add(identity)
            yield lambda: self.running.remove(identity)
            ctx.effect(lambda: hold(ctx))
            ctx.spawn(asyncio.sleep, 3600)
            if gives is not None and ctx.get(gives) is None:
                ctx.provide(gives, object())  # may be taken: then this activation fails
            if child is not None:
                self.fibers.append(ctx.plugin(child))
            await pause()
            if fails:
                raise ValueError("this one never starts")
            yield lambda: None
            await pause()

        body.inject = needs
        return body

    def step(self, root: Context) -> None:
        action = self.random.random()
        if action < 0.5 or not self.fibers:
            self.fibers.append(root.plugin(self.plugin()))
        elif action < 0.75:
            self.random.choice(self.fibers).dispose()
        else:
            fiber = self.random.choice(self.fibers)
            if fiber.uid is not None:
                fiber.restart()

    async def settle(self) -> None:
        while any(fiber.inertia for fiber in self.fibers):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(40))
async def test_random_composition_settles_and_leaves_nothing(seed: int):
    world = World(seed)
    before = asyncio.all_tasks()
    async with Context() as root:
        for _ in range(40):
            world.step(root)
            for _ in range(world.random.randrange(4)):
                await asyncio.sleep(0)
        await world.settle()
        for fiber in world.fibers:
            missing = [key for key in fiber.inject.values() if root.get(key) is None]
            if fiber.state is FiberState.ACTIVE:
                assert not missing
            elif fiber.state is FiberState.PENDING:
                assert missing
            else:
                assert fiber.state in (FiberState.FAILED, FiberState.DISPOSED)
    assert {fiber.state for fiber in world.fibers} == {FiberState.DISPOSED}
    assert (world.held, world.running) == (0, set())
    assert root.fiber.get_effects() == ()
    assert all(root.get(key) is None for key in KEYS)
    assert asyncio.all_tasks() == before


async def test_disposed_fiber_refuses_a_restart(root: Context):
    fiber = await root.plugin(lambda _ctx, _config: None)
    await fiber.dispose()
    with pytest.raises(CordisError) as caught:
        fiber.restart()
    assert caught.value.code == "INACTIVE_EFFECT"
