"""Each way from one state of a fiber to another, and what may be done on the way."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import Context, CordisError, EffectInfo, Fiber, FiberState, Internal, ServiceKey

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")


class Path:
    """The states that one fiber goes through."""

    def __init__(self, root: Context) -> None:
        self._states: list[str] = []
        root.on(Internal.STATUS, lambda fiber, _old: self._states.append(fiber.state.name))

    def taken(self) -> str:
        """The names since the last call."""
        states, self._states = self._states, []
        return " ".join(states)


async def test_path_of_a_plugin_that_fails_and_is_retried(root: Context, new_probe):
    probe = new_probe()
    probe.fail = ValueError("no")
    path = Path(root)
    fiber = root.plugin(probe)
    await fiber.quiet()
    assert path.taken() == "LOADING UNLOADING FAILED"
    with pytest.raises(ValueError, match="no"):
        await fiber.restart()
    assert path.taken() == "LOADING UNLOADING FAILED"
    probe.fail = None
    await fiber.update("good")
    assert path.taken() == "LOADING ACTIVE"


async def test_path_of_a_consumer_whose_service_goes_comes_and_changes_hands(
    root: Context, new_probe
):
    fiber = await root.plugin(new_probe(inject=(FOO,)))
    path = Path(root)
    one = root.provide(FOO, "one")
    await fiber.quiet()
    assert path.taken() == "LOADING ACTIVE"
    await one()
    await fiber.quiet()
    assert path.taken() == "UNLOADING PENDING"
    two = root.provide(FOO, "two")
    await fiber.quiet()
    assert path.taken() == "LOADING ACTIVE"
    gone = two()
    root.provide(FOO, "three")
    await gone
    await fiber.quiet()
    assert path.taken() == "UNLOADING LOADING ACTIVE"


@pytest.mark.parametrize("state", ["PENDING", "LOADING", "ACTIVE", "FAILED"])
async def test_path_to_the_end_from_every_state(root: Context, new_probe, state: str):
    probe = new_probe(inject=(FOO,) if state == "PENDING" else ())
    probe.fail = ValueError("no") if state == "FAILED" else None
    fiber = root.plugin(probe)
    if state != "LOADING":
        await fiber.quiet()
    assert fiber.state.name == state
    path = Path(root)
    await fiber.dispose()
    assert path.taken() == "UNLOADING DISPOSED"
    assert fiber.uid is None


async def test_a_failed_plugin_waits_when_its_service_goes_and_runs_when_it_is_back(
    root: Context, new_probe
):
    probe = new_probe(inject=(FOO,))
    probe.fail = ValueError("no")
    registration = root.provide(FOO, "x")
    fiber = root.plugin(probe)
    await fiber.quiet()
    path = Path(root)
    registration()
    assert path.taken() == "PENDING"
    probe.fail = None
    root.provide(FOO, "y")
    assert await fiber is fiber
    assert path.taken() == "LOADING ACTIVE"


async def test_a_plugin_is_announced_waiting_and_before_it_loads(root: Context, new_probe):
    seen: list[tuple[int | None, FiberState]] = []
    root.on(Internal.PLUGIN, lambda fiber: seen.append((fiber.uid, fiber.state)))
    fiber = root.plugin(new_probe())
    assert seen == [(1, FiberState.PENDING)]
    assert fiber.state is FiberState.LOADING
    fiber.dispose()
    assert seen[1:] == [(None, FiberState.LOADING)]
    await fiber.quiet()


async def test_inertia_is_the_work_in_flight(root: Context, new_probe):
    fiber = root.plugin(new_probe())
    loading = fiber.inertia
    assert loading is not None
    await fiber
    assert fiber.inertia is None
    end = fiber.dispose()
    assert fiber.inertia not in (None, loading)
    await end
    assert fiber.inertia is None


async def test_awaiting_a_waiting_plugin_returns_at_once(root: Context, new_probe):
    fiber = root.plugin(new_probe(inject=(FOO,)))
    assert (await fiber).state is FiberState.PENDING


async def test_body_is_skipped_when_its_service_goes_before_its_first_tick(
    root: Context, new_probe
):
    registration = root.provide(FOO, "x")
    probe = new_probe(inject=(FOO,))
    fiber = root.plugin(probe)
    assert fiber.state is FiberState.LOADING
    registration()
    await fiber.quiet()
    assert (probe.log, fiber.state) == ([], FiberState.PENDING)


@pytest.mark.parametrize("state", ["PENDING", "LOADING", "FAILED"])
async def test_effects_attached_before_a_plugin_runs_are_drained_by_its_end(
    root: Context, new_probe, state: str
):
    undone: list[str] = []
    probe = new_probe(inject=(FOO,) if state == "PENDING" else ())
    probe.fail = ValueError("no") if state == "FAILED" else None
    fiber = root.plugin(probe)
    if state != "LOADING":
        await fiber.quiet()
    assert fiber.state.name == state
    fiber.ctx.effect(lambda: lambda: undone.append("undone"))
    await fiber.dispose()
    assert undone == ["undone"]


async def test_mount_observer_may_attach_effects(root: Context, new_probe):
    undone: list[str] = []

    def observe(fiber: Fiber) -> None:
        if fiber.uid is not None:
            fiber.ctx.effect(lambda: lambda: undone.append("undone"), "observer's")

    root.on(Internal.PLUGIN, observe)
    fiber = await root.plugin(new_probe())
    assert [info.label for info in fiber.get_effects()] == ["observer's", "body"]
    await fiber.dispose()
    assert undone == ["undone"]


async def test_mount_observer_may_dispose_the_plugin(root: Context, new_probe):
    observing = root.on(Internal.PLUGIN, lambda fiber: fiber.dispose() and None)
    probe = new_probe()
    fiber = root.plugin(probe)
    assert fiber.uid is None
    await fiber.quiet()
    assert (probe.log, fiber.state) == ([], FiberState.DISPOSED)
    observing()
    assert root.fiber.get_effects() == ()


async def test_what_a_body_may_return_is_what_an_effect_may(root: Context):
    undone: list[str] = []

    async def nothing(_ctx: Context, _config: object) -> None:
        return None

    def iterator(_ctx: Context, _config: object):
        return iter([lambda: undone.append("a"), None, lambda: undone.append("b")])

    async def generator(_ctx: Context, _config: object):
        yield lambda: undone.append("c")

    def bad(_ctx: Context, _config: object) -> object:
        return 3

    for body in (nothing, iterator, generator):
        await (await root.plugin(body)).dispose()
    assert undone == ["b", "a", "c"]
    with pytest.raises(TypeError, match="Invalid effect"):
        await root.plugin(bad)


async def test_setup_that_ends_its_own_plugin_is_undone_after_it_returns(root: Context):
    log: list[object] = []

    def body(ctx: Context, _config: object) -> None:
        def setup():
            log.append([info.label for info in ctx.fiber.get_effects()])
            ctx.fiber.dispose()
            log.append("set up")
            return lambda: log.append("undone")

        ctx.effect(setup, "mine")

    fiber = root.plugin(body)
    await fiber.quiet()
    assert log == [["body", "mine"], "set up", "undone"]
    assert fiber.state is FiberState.DISPOSED


async def test_outer_effect_joins_the_cleanup_of_an_inner_one_that_someone_else_began(
    root: Context,
):
    gate, log = asyncio.Event(), []
    inner = root.effect(lambda: gate.wait, "inner")
    outer = root.effect(lambda: iter([lambda: log.append("outer"), inner]), "outer")
    assert root.fiber.get_effects() == (EffectInfo("outer", (EffectInfo("inner", ()),)),)
    inner()
    end = outer()
    await asyncio.sleep(0)
    assert log == []
    gate.set()
    await end
    assert log == ["outer"]


async def test_effect_on_a_disposed_plugin_is_refused(root: Context, new_probe):
    fiber = await root.plugin(new_probe())
    await fiber.dispose()
    with pytest.raises(CordisError, match="cannot create effect on inactive context") as caught:
        fiber.ctx.effect(lambda: None)
    assert caught.value.code == "INACTIVE_EFFECT"
