"""Plugins that cancel the task they run in: nobody else is cancelled, and all is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from dsh_cordis import Context, Fiber, FiberState, Internal

pytestmark = pytest.mark.anyio


def cancel_running_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def test_a_body_that_cancels_its_own_task_fails_and_is_unwound(root: Context):
    undone: list[str] = []

    async def body(ctx: Context, config: object) -> None:
        ctx.effect(lambda: lambda: undone.append("undone"))
        ctx.spawn(asyncio.Event().wait)
        cancel_running_task()
        if config == "waits":
            await asyncio.sleep(0)
        raise ValueError("either way")

    for config in ("waits", "goes on"):
        fiber = root.plugin(body, config)
        await fiber.quiet()
        assert fiber.state is FiberState.FAILED
        await fiber.dispose()
    assert undone == ["undone", "undone"]


async def test_a_setup_that_cancels_its_own_task_is_rolled_back(root: Context):
    undone: list[str] = []

    async def setup():
        yield lambda: undone.append("undone")
        cancel_running_task()
        await asyncio.sleep(0)

    root.effect(setup)
    while root.fiber.get_effects():
        await asyncio.sleep(0)
    assert undone == ["undone"]


@pytest.mark.parametrize("among", ["its own effect", "one effect with others"])
async def test_a_disposer_that_cancels_its_task_does_not_stop_its_peers(root: Context, among: str):
    undone: list[str] = []

    async def undo_later() -> None:
        await asyncio.sleep(0)
        undone.append("later")

    def one() -> Iterator[Callable[[], object]]:
        yield lambda: undone.append("first")
        yield cancel_running_task
        yield undo_later
        yield cancel_running_task

    def body(ctx: Context, _config: object) -> None:
        if among == "one effect with others":
            ctx.effect(one)
        else:
            for disposer in one():
                ctx.effect(lambda disposer=disposer: disposer)

    fiber = root.plugin(body)
    await fiber
    await fiber.restart()
    assert fiber.state is FiberState.ACTIVE
    await fiber.dispose()
    assert fiber.state is FiberState.DISPOSED
    assert fiber.get_effects() == ()
    assert sorted(undone) == ["first", "first", "later", "later"]


async def test_an_asynchronous_disposer_that_cancels_its_task_does_not_stop_its_peers(
    root: Context,
):
    undone: list[str] = []

    async def bad() -> None:
        cancel_running_task()
        await asyncio.sleep(0)

    async def undo_later() -> None:
        await asyncio.sleep(0)
        undone.append("later")

    def one() -> Iterator[Callable[[], object]]:
        yield lambda: undone.append("first")
        yield undo_later
        yield bad

    fiber = root.plugin(lambda ctx, _config: one())
    await fiber
    await fiber.dispose()
    assert (fiber.state, fiber.get_effects()) == (FiberState.DISPOSED, ())
    assert undone == ["later", "first"]


async def test_who_awaits_a_disposer_that_cancels_its_task_is_not_cancelled(root: Context):
    def one() -> Iterator[Callable[[], object]]:
        yield cancel_running_task
        yield lambda: asyncio.sleep(0)

    pending = root.effect(one)()
    assert pending is not None
    await pending
    assert root.fiber.get_effects() == ()


async def test_a_stop_function_that_cancels_its_caller_does_not_stop_the_unload(root: Context):
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        cancel_running_task()

    undone: list[str] = []

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: lambda: undone.append("undone"))
        ctx.spawn(stopped.wait, stop=stop)

    fiber = root.plugin(body)
    await fiber
    await asyncio.sleep(0)
    await fiber.dispose()
    assert (fiber.state, undone) == (FiberState.DISPOSED, ["undone"])


async def test_an_observer_that_cancels_the_task_of_a_plugin_does_not_fail_it(root: Context):
    def cancel_if_its_own(fiber: Fiber, _old: FiberState) -> None:
        if asyncio.current_task() is fiber.inertia:
            cancel_running_task()

    root.on(Internal.STATUS, cancel_if_its_own)

    async def body(ctx: Context, _config: object) -> None:
        await asyncio.sleep(0)

    fiber = root.plugin(body)
    await fiber
    await fiber.restart()
    assert fiber.state is FiberState.ACTIVE


async def test_who_makes_the_configuration_does_not_cancel_the_body(root: Context):
    def cancel(_ctx: Context, raw: object) -> object:
        cancel_running_task()
        return raw

    async def body(_ctx: Context, _config: object) -> None:
        await asyncio.sleep(0)

    fiber = root.plugin(body, interpolate=cancel)
    await fiber
    assert fiber.state is FiberState.ACTIVE


async def test_cancelling_the_work_in_flight_does_not_leave_a_plugin_half_undone(root: Context):
    gate = asyncio.Event()
    undone: list[str] = []

    async def undo_later() -> None:
        await gate.wait()
        undone.append("later")

    fiber = root.plugin(lambda _ctx, _config: undo_later)
    await fiber
    fiber.dispose()
    work = fiber.inertia
    assert work is not None
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.sleep(0)
    gate.set()
    await fiber.quiet()
    assert (fiber.state, undone) == (FiberState.DISPOSED, ["later"])


async def test_a_plugin_whose_task_is_cancelled_before_its_first_step_can_end(root: Context):
    def mount(ctx: Context, _config: object) -> None:
        children.append(ctx.plugin(lambda _ctx, _config: None).fiber)
        work = children[-1].inertia
        assert work is not None
        work.cancel()

    children: list[Fiber] = []
    fiber = root.plugin(mount)
    await fiber
    await fiber.dispose()
    assert children[0].state is FiberState.DISPOSED


def test_a_loop_that_is_closed_in_the_midst_of_an_unload_is_not_held_up():
    undone: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            undone.append("hang")

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: lambda: undone.append("plain"))
        ctx.plugin(lambda _ctx, _config: hang)

    async def main() -> None:
        fiber = Context().plugin(body)
        for _ in range(5):
            await asyncio.sleep(0)
        fiber.dispose()
        for _ in range(5):
            await asyncio.sleep(0)
        Context().plugin(body)  # and one that has not begun

    asyncio.run(main())
    assert undone == ["plain", "hang"]
