"""Fibers: states and dependencies."""

from __future__ import annotations

import asyncio
import sys

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


async def test_numbers_of_the_states_are_public():
    assert [s.name for s in sorted(FiberState)] == [
        "PENDING",
        "LOADING",
        "ACTIVE",
        "FAILED",
        "DISPOSED",
        "UNLOADING",
    ]


async def test_mounting_returns_in_loading_and_the_body_runs_a_tick_later(root: Context, new_probe):
    probe = new_probe()
    fiber = root.plugin(probe)
    assert fiber.state is FiberState.LOADING
    assert probe.log == []
    assert await fiber is fiber.fiber
    assert fiber.state is FiberState.ACTIVE


async def test_body_runs_a_tick_later_even_with_an_eager_task_factory(root: Context, new_probe):
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    try:
        probe = new_probe()
        root.plugin(probe)
        assert probe.log == []
    finally:
        loop.set_task_factory(None)


async def test_uids_count_from_the_root(root: Context, new_probe):
    assert root.fiber.uid == 0
    assert [root.plugin(new_probe()).uid, root.plugin(new_probe()).uid] == [1, 2]


async def test_consumer_mounted_before_its_provider_waits_for_it_to_be_active(
    root: Context, new_probe
):
    probe = new_probe(inject=(FOO,))
    fiber = await root.plugin(probe)
    assert fiber.state is FiberState.PENDING
    await root.plugin(provide("x"))
    await fiber
    assert fiber.state is FiberState.ACTIVE
    assert probe.log == [("run", "x")]


async def test_consumer_follows_its_provider_away_and_back(root: Context, new_probe):
    probe = new_probe(inject=(FOO,))
    first = await root.plugin(provide("one"))
    fiber = await root.plugin(probe)
    await first.dispose()
    await settled(fiber)
    assert fiber.state is FiberState.PENDING
    await root.plugin(provide("two"))
    await fiber
    assert probe.log == [("run", "one"), "undo", ("run", "two")]


async def test_replaced_provider_restarts_the_consumer_exactly_once(root: Context, new_probe):
    probe = new_probe(inject=(FOO,))
    registration = root.provide(FOO, "one")
    fiber = await root.plugin(probe)
    gone = registration()
    root.provide(FOO, "two")
    await gone
    await settled(fiber)
    assert probe.log == [("run", "one"), "undo", ("run", "two")]


async def test_provider_restart_cycles_its_dependents(root: Context, new_probe):
    probe = new_probe(inject=(FOO,))
    provider = await root.plugin(provide("x"))
    fiber = await root.plugin(probe)
    await provider.restart()
    await settled(fiber)
    assert probe.log == [("run", "x"), "undo", ("run", "x")]


async def test_dependents_begin_to_unload_in_the_same_step(root: Context, new_probe):
    provider = await root.plugin(provide("x"))
    fiber = await root.plugin(new_probe(inject=(FOO,)))
    provider.dispose()
    assert fiber.state is FiberState.UNLOADING
    await settled(provider, fiber)


async def test_raising_body_unwinds_its_effects_and_await_raises_the_original(root: Context):
    undone: list[int] = []
    error = ValueError("boom")

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: lambda: undone.append(1))
        ctx.effect(lambda: lambda: undone.append(2))
        raise error

    fiber = root.plugin(body)
    with pytest.raises(ValueError, match="boom") as caught:
        await fiber
    assert caught.value is error
    assert undone == [2, 1]
    assert fiber.state == 3
    assert fiber.get_effects() == ()


async def test_failing_plugin_is_logged_with_its_owner(root: Context, caplog, new_probe):
    probe = new_probe()
    probe.fail = RuntimeError("no luck")
    fiber = root.plugin(probe, name="unlucky")
    await settled(fiber)
    (record,) = caplog.records
    assert record.fiber == "unlucky"
    assert record.exc_info is not None
    assert "no luck" in record.getMessage()


async def test_stray_cancelled_error_in_a_body_is_a_failure(root: Context):
    async def body(_ctx: Context, _config: object) -> None:
        raise asyncio.CancelledError

    fiber = root.plugin(body)
    await settled(fiber)
    assert fiber.state is FiberState.FAILED


async def test_a_body_that_exits_fails_its_plugin_and_not_the_process(root: Context):
    def plain(_ctx: Context, _config: object) -> None:
        sys.exit(3)

    async def later(_ctx: Context, _config: object) -> None:
        await asyncio.sleep(0)
        sys.exit(3)

    for body in (plain, later):
        fiber = root.plugin(body)
        with pytest.raises(CordisError, match="exit the process") as caught:
            await fiber
        assert (caught.value.code, fiber.state) == ("PLUGIN_EXIT", FiberState.FAILED)


async def test_a_plain_body_that_brings_up_a_cancellation_fails(root: Context):
    def body(_ctx: Context, _config: object) -> None:
        raise asyncio.CancelledError

    fiber = root.plugin(body)
    with pytest.raises(asyncio.CancelledError):
        await fiber
    assert fiber.state is FiberState.FAILED


async def test_failed_recovers_after_a_dependency_bounce(root: Context, new_probe):
    probe = new_probe(inject=(FOO,))
    probe.fail = RuntimeError("no")
    provider = await root.plugin(provide("x"))
    fiber = root.plugin(probe)
    await settled(fiber)
    assert fiber.state is FiberState.FAILED
    probe.fail = None
    await provider.restart()
    await fiber
    assert fiber.state is FiberState.ACTIVE


async def test_restart_raises_what_the_new_activation_raises(root: Context, new_probe):
    probe = new_probe()
    fiber = await root.plugin(probe)
    probe.fail = RuntimeError("second time")
    with pytest.raises(RuntimeError, match="second time"):
        await fiber.restart()


async def test_mount_observer_may_add_a_dependency(root: Context, new_probe):
    def observe(fiber: Fiber) -> None:
        if fiber.uid is not None:
            fiber.inject[FOO.name] = FOO

    observing = root.on(Internal.PLUGIN, observe)
    probe = new_probe()
    fiber = await root.plugin(probe)
    observing()
    assert fiber.state is FiberState.PENDING
    root.provide(FOO, "x")
    await fiber
    assert fiber.state is FiberState.ACTIVE


async def test_raising_mount_observer_undoes_the_mount(root: Context, new_probe):
    born: list[Fiber] = []

    def observe(fiber: Fiber) -> None:
        born.append(fiber)
        if fiber.uid is not None:
            raise RuntimeError("refused")

    observing = root.on(Internal.PLUGIN, observe)
    probe = new_probe()
    with pytest.raises(RuntimeError, match="refused"):
        root.plugin(probe)
    await settled(born[0])
    assert born[0].state is FiberState.DISPOSED
    assert probe.log == []
    observing()
    assert root.fiber.get_effects() == ()


async def test_child_whose_parent_is_disposed_by_a_mount_observer_never_runs(
    root: Context, new_probe
):
    probe, parents = new_probe(), []

    async def parent(ctx: Context, _config: object) -> None:
        parents.append(ctx.fiber)
        ctx.plugin(probe)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def observe(fiber: Fiber) -> None:
        if parents and fiber.parent is parents[0]:
            parents[0].dispose()

    root.on(Internal.PLUGIN, observe)
    fiber = root.plugin(parent)
    await settled(fiber)
    assert fiber.state is FiberState.DISPOSED
    assert probe.log == []


async def test_status_event_follows_the_life_of_a_fiber(root: Context, new_probe):
    states: list[tuple[str, str]] = []
    root.on(Internal.STATUS, lambda fiber, old: states.append((old.name, fiber.state.name)))
    fiber = await root.plugin(new_probe())
    await fiber.restart()
    await fiber.dispose()
    assert states == [
        ("PENDING", "LOADING"),
        ("LOADING", "ACTIVE"),
        ("ACTIVE", "UNLOADING"),
        ("UNLOADING", "LOADING"),
        ("LOADING", "ACTIVE"),
        ("ACTIVE", "UNLOADING"),
        ("UNLOADING", "DISPOSED"),
    ]


async def test_name_is_the_nearest_named_plugin_upward(root: Context):
    names: list[str] = []

    async def outer(ctx: Context, _config: object) -> None:
        await ctx.plugin(lambda inner, _config: names.append(inner.fiber.name))

    await root.plugin(outer)
    assert names == ["outer"]
    assert root.fiber.name == "root"


async def test_cycle_of_required_services_pends(root: Context):
    bar = ServiceKey[str]("bar")

    def one(ctx: Context, _config: object) -> None:
        ctx.provide(bar, "x")

    def two(ctx: Context, _config: object) -> None:
        ctx.provide(FOO, "x")

    one.inject, two.inject = (FOO,), (bar,)
    first, second = await root.plugin(one), await root.plugin(two)
    assert first.state is second.state is FiberState.PENDING
