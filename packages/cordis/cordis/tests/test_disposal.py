"""The end of a fiber: what it waits for, who waits for it, what is left."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from dsh_cordis import Context, CordisError, Fiber, FiberState, Internal, ServiceKey

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")


def provide(value: str):
    def body(ctx: Context, _config: object) -> None:
        ctx.provide(FOO, value)

    return body


async def settled(*fibers: Fiber) -> None:
    for fiber in fibers:
        await fiber.quiet()


async def test_dispose_before_the_first_tick_never_runs_the_body(root: Context, new_probe):
    probe = new_probe()
    fiber = root.plugin(probe)
    await fiber.dispose()
    assert probe.log == []
    assert fiber.state == 4
    assert fiber.uid is None


async def test_dispose_during_the_body_runs_the_disposer_it_later_returns(root: Context, new_probe):
    probe = new_probe()
    probe.gate = asyncio.Event()
    fiber = root.plugin(probe)
    await asyncio.sleep(0)
    end = fiber.dispose()
    await asyncio.sleep(0)
    assert fiber.state is FiberState.LOADING
    probe.gate.set()
    await end
    assert probe.log == [("run", None), "undo"]


async def test_while_a_disposed_body_runs_new_effects_are_refused(root: Context):
    gate, codes = asyncio.Event(), []

    async def body(ctx: Context, _config: object) -> None:
        await gate.wait()
        try:
            ctx.effect(lambda: None)
        except CordisError as error:
            codes.append(error.code)

    fiber = root.plugin(body)
    await asyncio.sleep(0)
    end = fiber.dispose()
    gate.set()
    await end
    assert codes == ["INACTIVE_EFFECT"]


async def test_while_a_starved_body_runs_new_effects_are_accepted_and_unwound(root: Context):
    gate, undone = asyncio.Event(), []

    async def body(ctx: Context, _config: object) -> None:
        await gate.wait()
        ctx.effect(lambda: lambda: undone.append("late"))

    body.inject = (FOO,)
    provider = await root.plugin(provide("x"))
    fiber = root.plugin(body)
    await asyncio.sleep(0)
    end = provider.dispose()
    gate.set()
    await end
    await settled(fiber)
    assert undone == ["late"]
    assert fiber.state is FiberState.PENDING


async def test_generator_body_stops_at_the_next_yield(root: Context):
    gate, log = asyncio.Event(), []

    async def body(_ctx: Context, _config: object):
        try:
            yield lambda: log.append("undo a")
            await gate.wait()
            yield lambda: log.append("undo b")
            log.append("never")
        finally:
            log.append("closed")

    fiber = root.plugin(body)
    await asyncio.sleep(0)
    end = fiber.dispose()
    gate.set()
    await end
    assert log == ["closed", "undo b", "undo a"]


async def test_what_a_body_returns_is_undone_after_what_it_registered(root: Context):
    order: list[str] = []

    def body(ctx: Context, _config: object):
        ctx.effect(lambda: lambda: order.append("registered"))
        return lambda: order.append("returned")

    await (await root.plugin(body)).dispose()
    assert order == ["registered", "returned"]


async def test_parent_dispose_waits_for_a_grandchilds_asynchronous_cleanup(root: Context):
    gate, log = asyncio.Event(), []

    def grandchild(_ctx: Context, _config: object):
        async def cleanup() -> None:
            await gate.wait()
            log.append("grandchild cleaned")

        return cleanup

    async def child(ctx: Context, _config: object) -> None:
        await ctx.plugin(grandchild)

    async def parent(ctx: Context, _config: object) -> None:
        await ctx.plugin(child)

    fiber = await root.plugin(parent)
    end = fiber.dispose()
    await asyncio.sleep(0)
    assert log == []
    gate.set()
    await end
    assert log == ["grandchild cleaned"]


async def test_parent_joins_a_childs_disposal_that_someone_else_started(root: Context):
    gate, children = asyncio.Event(), []

    async def parent(ctx: Context, _config: object) -> None:
        children.append(await ctx.plugin(lambda _ctx, _config: gate.wait))

    fiber = await root.plugin(parent)
    children[0].dispose()
    end = fiber.dispose()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert fiber.state is FiberState.UNLOADING
    gate.set()
    await end
    assert children[0].state is FiberState.DISPOSED


async def test_raising_teardown_observer_does_not_stop_its_peers(root: Context, caplog, new_probe):
    told: list[object] = []

    def raising(fiber: Fiber) -> None:
        if fiber.uid is None:
            raise RuntimeError("observer")

    root.on(Internal.PLUGIN, raising)
    root.on(Internal.PLUGIN, lambda fiber: told.append(fiber.uid))
    fiber = await root.plugin(new_probe())
    await fiber.dispose()
    assert told == [1, None]
    assert "observer" in caplog.text


async def test_raising_disposer_does_not_stop_its_peers(root: Context, caplog):
    undone: list[str] = []

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: lambda: undone.append("first"))
        ctx.effect(lambda: lambda: 1 // 0)

    fiber = await root.plugin(body)
    await fiber.dispose()
    assert undone == ["first"]
    assert "ZeroDivisionError" in caplog.text


async def test_second_dispose_returns_at_once(root: Context):
    gate = asyncio.Event()
    fiber = await root.plugin(lambda _ctx, _config: gate.wait)
    end = fiber.dispose()
    await fiber.dispose()
    assert fiber.state is FiberState.UNLOADING
    gate.set()
    await end


async def test_cancelling_who_waits_for_a_disposal_does_not_cancel_it(root: Context):
    gate, log = asyncio.Event(), []

    async def cleanup() -> None:
        await gate.wait()
        log.append("finished")

    fiber = await root.plugin(lambda _ctx, _config: cleanup)

    async def wait() -> None:
        await fiber.dispose()

    waiter = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    gate.set()
    await settled(fiber)
    assert log == ["finished"]


async def test_awaiting_ones_own_disposal_is_refused(root: Context):
    codes: list[str] = []

    async def task(fiber: Fiber) -> None:
        try:
            await fiber.dispose()
        except CordisError as error:
            codes.append(error.code)

    def child(ctx: Context, _config: object) -> None:
        assert ctx.fiber.parent is not None
        ctx.spawn(task, ctx.fiber.parent)

    def parent(ctx: Context, _config: object) -> None:
        ctx.plugin(child)

    fiber = await root.plugin(parent)
    while fiber.state is not FiberState.DISPOSED:
        await asyncio.sleep(0)
    assert codes == ["SELF_DISPOSAL"]


async def test_body_awaiting_its_own_activation_is_refused(root: Context):
    async def body(ctx: Context, _config: object) -> None:
        await ctx.fiber

    fiber = root.plugin(body)
    with pytest.raises(CordisError) as caught:
        await fiber
    assert caught.value.code == "SELF_DISPOSAL"


async def test_disposed_root_is_active_and_usable_again(caplog, new_probe):
    async with Context() as root:
        root.effect(lambda: lambda: 1 // 0)
        fiber = await root.plugin(new_probe())
        await root.fiber.dispose()
        assert "ZeroDivisionError" in caplog.text
        assert fiber.state is FiberState.DISPOSED
        assert root.fiber.state is FiberState.ACTIVE
        again = await root.plugin(new_probe())
        assert again.state is FiberState.ACTIVE


async def test_leaving_the_root_disposes_everything_and_leaks_no_task(new_probe):
    before = asyncio.all_tasks()
    async with Context() as root:
        fiber = await root.plugin(new_probe())
        fiber.ctx.spawn(asyncio.sleep, 3600)
    assert fiber.state is FiberState.DISPOSED
    assert asyncio.all_tasks() == before


async def test_disposed_fiber_is_not_kept_alive(root: Context, new_probe):
    fiber = await root.plugin(new_probe(inject=(FOO,)))
    ghost = weakref.ref(fiber)
    await fiber.dispose()
    del fiber
    gc.collect()
    assert ghost() is None
