"""Fibers: states, dependencies, disposal, updates."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref

import msgspec
import pytest
from dsh_cordis import Context, CordisError, Fiber, FiberState, Internal, ServiceKey

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")


class Probe:
    """A plugin that records what happens to it."""

    def __init__(self, *, inject=(), config=None) -> None:
        self.log: list[object] = []
        self.inject = inject
        self.Config = config
        self.gate: asyncio.Event | None = None
        self.fail: Exception | None = None

    async def apply(self, ctx: Context, config: object):
        self.log.append(("run", ctx.get(FOO) if self.inject else config))
        if self.gate is not None:
            await self.gate.wait()
        if self.fail is not None:
            raise self.fail
        return lambda: self.log.append("undo")


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


async def test_mounting_returns_in_loading_and_the_body_runs_a_tick_later(root: Context):
    probe = Probe()
    fiber = root.plugin(probe)
    assert fiber.state is FiberState.LOADING
    assert probe.log == []
    assert await fiber is fiber.fiber
    assert fiber.state is FiberState.ACTIVE


async def test_body_runs_a_tick_later_even_with_an_eager_task_factory(root: Context):
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    try:
        probe = Probe()
        root.plugin(probe)
        assert probe.log == []
    finally:
        loop.set_task_factory(None)


async def test_uids_count_from_the_root(root: Context):
    assert root.fiber.uid == 0
    assert [root.plugin(Probe()).uid, root.plugin(Probe()).uid] == [1, 2]


async def test_consumer_mounted_before_its_provider_waits_for_it_to_be_active(root: Context):
    probe = Probe(inject=(FOO,))
    fiber = await root.plugin(probe)
    assert fiber.state is FiberState.PENDING
    await root.plugin(provide("x"))
    await fiber
    assert fiber.state is FiberState.ACTIVE
    assert probe.log == [("run", "x")]


async def test_consumer_follows_its_provider_away_and_back(root: Context):
    probe = Probe(inject=(FOO,))
    first = await root.plugin(provide("one"))
    fiber = await root.plugin(probe)
    await first.dispose()
    await settled(fiber)
    assert fiber.state is FiberState.PENDING
    await root.plugin(provide("two"))
    await fiber
    assert probe.log == [("run", "one"), "undo", ("run", "two")]


async def test_replaced_provider_restarts_the_consumer_exactly_once(root: Context):
    probe = Probe(inject=(FOO,))
    registration = root.provide(FOO, "one")
    fiber = await root.plugin(probe)
    gone = registration()
    root.provide(FOO, "two")
    await gone
    await settled(fiber)
    assert probe.log == [("run", "one"), "undo", ("run", "two")]


async def test_provider_restart_cycles_its_dependents(root: Context):
    probe = Probe(inject=(FOO,))
    provider = await root.plugin(provide("x"))
    fiber = await root.plugin(probe)
    await provider.restart()
    await settled(fiber)
    assert probe.log == [("run", "x"), "undo", ("run", "x")]


async def test_dependents_begin_to_unload_in_the_same_step(root: Context):
    provider = await root.plugin(provide("x"))
    fiber = await root.plugin(Probe(inject=(FOO,)))
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


async def test_failing_plugin_is_logged_with_its_owner(root: Context, caplog):
    probe = Probe()
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


class Config(msgspec.Struct):
    size: int


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


async def test_failed_recovers_after_a_good_update(root: Context):
    probe = Probe(config=Config)
    fiber = root.plugin(probe, {"size": "big"})
    await settled(fiber)
    assert fiber.state is FiberState.FAILED
    assert probe.log == []
    await fiber.update({"size": 2})
    assert fiber.state is FiberState.ACTIVE
    assert fiber.config == Config(size=2)


async def test_failed_recovers_after_a_dependency_bounce(root: Context):
    probe = Probe(inject=(FOO,))
    probe.fail = RuntimeError("no")
    provider = await root.plugin(provide("x"))
    fiber = root.plugin(probe)
    await settled(fiber)
    assert fiber.state is FiberState.FAILED
    probe.fail = None
    await provider.restart()
    await fiber
    assert fiber.state is FiberState.ACTIVE


async def test_restart_raises_what_the_new_activation_raises(root: Context):
    probe = Probe()
    fiber = await root.plugin(probe)
    probe.fail = RuntimeError("second time")
    with pytest.raises(RuntimeError, match="second time"):
        await fiber.restart()


async def test_dispose_before_the_first_tick_never_runs_the_body(root: Context):
    probe = Probe()
    fiber = root.plugin(probe)
    await fiber.dispose()
    assert probe.log == []
    assert fiber.state == 4
    assert fiber.uid is None


async def test_dispose_during_the_body_runs_the_disposer_it_later_returns(root: Context):
    probe = Probe()
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


async def test_raising_teardown_observer_does_not_stop_its_peers(root: Context, caplog):
    told: list[object] = []

    def raising(fiber: Fiber) -> None:
        if fiber.uid is None:
            raise RuntimeError("observer")

    root.on(Internal.PLUGIN, raising)
    root.on(Internal.PLUGIN, lambda fiber: told.append(fiber.uid))
    fiber = await root.plugin(Probe())
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


async def test_invalid_update_leaves_the_old_instance_active(root: Context):
    probe = Probe(config=Config)
    fiber = await root.plugin(probe, {"size": 1})
    with pytest.raises(CordisError):
        await fiber.update({"size": "x"})
    assert fiber.state is FiberState.ACTIVE
    assert fiber.config == Config(size=1)
    assert len(probe.log) == 1


async def test_valid_update_restarts_with_the_new_configuration(root: Context):
    probe = Probe(config=Config)
    fiber = await root.plugin(probe, {"size": 1})
    await fiber.update({"size": 2})
    assert probe.log == [("run", Config(size=1)), "undo", ("run", Config(size=2))]


async def test_update_accepted_in_place_does_not_run_the_body_again(root: Context):
    taken: list[object] = []

    def body(ctx: Context, _config: object) -> None:
        async def accept(_fiber, config, _no_save, _next) -> None:
            taken.append(config)

        ctx.on(Internal.UPDATE, accept)
        taken.append("run")

    fiber = await root.plugin(body, 1)
    await fiber.update(2)
    assert taken == ["run", 2]
    assert fiber.config == 2


async def test_update_listener_of_a_plugin_hears_only_its_own_fiber(root: Context):
    heard: list[object] = []

    def body(ctx: Context, config: object) -> None:
        async def listen(_fiber, new, _no_save, proceed) -> None:
            heard.append((config, new))
            await proceed()

        ctx.on(Internal.UPDATE, listen)

    await root.plugin(body, "a")
    other = await root.plugin(body, "b")
    await other.update("c")
    assert heard == [("b", "c")]


async def test_update_of_a_disposed_fiber_is_refused(root: Context):
    fiber = await root.plugin(Probe())
    await fiber.dispose()
    with pytest.raises(CordisError) as caught:
        await fiber.update({})
    assert caught.value.code == "INACTIVE_EFFECT"


async def test_update_during_loading_is_used_by_the_next_activation(root: Context):
    probe = Probe()
    probe.gate = asyncio.Event()
    fiber = root.plugin(probe, "old")
    await asyncio.sleep(0)
    update = asyncio.ensure_future(fiber.update("new"))
    await asyncio.sleep(0)
    probe.gate.set()
    await update
    assert probe.log == [("run", "old"), "undo", ("run", "new")]


async def test_mount_observer_may_add_a_dependency(root: Context):
    def observe(fiber: Fiber) -> None:
        if fiber.uid is not None:
            fiber.inject[FOO.name] = FOO

    observing = root.on(Internal.PLUGIN, observe)
    probe = Probe()
    fiber = await root.plugin(probe)
    observing()
    assert fiber.state is FiberState.PENDING
    root.provide(FOO, "x")
    await fiber
    assert fiber.state is FiberState.ACTIVE


async def test_raising_mount_observer_undoes_the_mount(root: Context):
    born: list[Fiber] = []

    def observe(fiber: Fiber) -> None:
        born.append(fiber)
        if fiber.uid is not None:
            raise RuntimeError("refused")

    observing = root.on(Internal.PLUGIN, observe)
    probe = Probe()
    with pytest.raises(RuntimeError, match="refused"):
        root.plugin(probe)
    await settled(born[0])
    assert born[0].state is FiberState.DISPOSED
    assert probe.log == []
    observing()
    assert root.fiber.get_effects() == ()


async def test_child_whose_parent_is_disposed_by_a_mount_observer_never_runs(root: Context):
    probe, parents = Probe(), []

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


async def test_status_event_follows_the_life_of_a_fiber(root: Context):
    states: list[tuple[str, str]] = []
    root.on(Internal.STATUS, lambda fiber, old: states.append((old.name, fiber.state.name)))
    fiber = await root.plugin(Probe())
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


async def test_disposed_root_is_active_and_usable_again(caplog):
    async with Context() as root:
        root.effect(lambda: lambda: 1 // 0)
        fiber = await root.plugin(Probe())
        await root.fiber.dispose()
        assert "ZeroDivisionError" in caplog.text
        assert fiber.state is FiberState.DISPOSED
        assert root.fiber.state is FiberState.ACTIVE
        again = await root.plugin(Probe())
        assert again.state is FiberState.ACTIVE


async def test_leaving_the_root_disposes_everything_and_leaks_no_task():
    before = asyncio.all_tasks()
    async with Context() as root:
        fiber = await root.plugin(Probe())
        fiber.ctx.spawn(asyncio.sleep, 3600)
    assert fiber.state is FiberState.DISPOSED
    assert asyncio.all_tasks() == before


async def test_disposed_fiber_is_not_kept_alive(root: Context):
    fiber = await root.plugin(Probe(inject=(FOO,)))
    ghost = weakref.ref(fiber)
    await fiber.dispose()
    del fiber
    gc.collect()
    assert ghost() is None


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
