"""New configuration for a fiber, in whatever state it is."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from dsh_cordis import Context, CordisError, FiberState, Internal, ServiceKey

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")


class Config(msgspec.Struct):
    size: int


async def test_failed_recovers_after_a_good_update(root: Context, new_probe):
    probe = new_probe(config=Config)
    fiber = root.plugin(probe, {"size": "big"})
    await fiber.quiet()
    assert fiber.state is FiberState.FAILED
    assert probe.log == []
    await fiber.update({"size": 2})
    assert fiber.state is FiberState.ACTIVE
    assert fiber.config == Config(size=2)


async def test_invalid_update_leaves_the_old_instance_active(root: Context, new_probe):
    probe = new_probe(config=Config)
    fiber = await root.plugin(probe, {"size": 1})
    with pytest.raises(CordisError):
        await fiber.update({"size": "x"})
    assert fiber.state is FiberState.ACTIVE
    assert fiber.config == Config(size=1)
    assert len(probe.log) == 1


async def test_valid_update_restarts_with_the_new_configuration(root: Context, new_probe):
    probe = new_probe(config=Config)
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


async def test_update_of_a_disposed_fiber_is_refused(root: Context, new_probe):
    fiber = await root.plugin(new_probe())
    await fiber.dispose()
    with pytest.raises(CordisError) as caught:
        await fiber.update({})
    assert caught.value.code == "INACTIVE_EFFECT"


async def test_update_during_loading_is_used_by_the_next_activation(root: Context, new_probe):
    probe = new_probe()
    probe.gate = asyncio.Event()
    fiber = root.plugin(probe, "old")
    await asyncio.sleep(0)
    update = asyncio.ensure_future(fiber.update("new"))
    await asyncio.sleep(0)
    probe.gate.set()
    await update
    assert probe.log == [("run", "old"), "undo", ("run", "new")]


async def test_update_of_a_waiting_plugin_is_used_when_it_loads(root: Context, new_probe):
    probe = new_probe(inject=(FOO,), config=Config)
    fiber = await root.plugin(probe, {"size": 1})
    await fiber.update({"size": 2})
    assert fiber.state is FiberState.PENDING
    root.provide(FOO, "x")
    await fiber
    assert fiber.config == Config(size=2)


async def test_bad_update_of_a_failed_plugin_raises_and_it_stays_failed(root: Context, new_probe):
    probe = new_probe(config=Config)
    fiber = root.plugin(probe, {"size": "big"})
    await fiber.quiet()
    with pytest.raises(CordisError, match="bigger"):
        await fiber.update({"bigger": 2})
    assert (fiber.state, probe.log) == (FiberState.FAILED, [])


async def test_update_during_a_body_that_then_fails_is_still_used(root: Context):
    gate, runs = asyncio.Event(), []

    async def body(_ctx: Context, config: object) -> None:
        runs.append(config)
        await gate.wait()
        if config == "old":
            raise ValueError(config)

    fiber = root.plugin(body, "old")
    while not runs:
        await asyncio.sleep(0)
    update = asyncio.ensure_future(fiber.update("new"))
    await asyncio.sleep(0)
    gate.set()
    await update
    assert (fiber.state, runs) == (FiberState.ACTIVE, ["old", "new"])


async def test_raising_update_listener_vetoes_the_restart(root: Context):
    runs: list[object] = []

    def body(ctx: Context, config: object) -> None:
        async def refuse(_fiber, _config, no_save, _next) -> None:
            raise ValueError(no_save)

        runs.append(config)
        ctx.on(Internal.UPDATE, refuse)

    fiber = await root.plugin(body, 1)
    with pytest.raises(ValueError, match="True"):
        await fiber.update(2, no_save=True)
    assert (fiber.state, fiber.config, runs) == (FiberState.ACTIVE, 1, [1])


async def test_update_listener_of_an_activation_does_not_survive_a_restart(root: Context):
    heard: list[object] = []

    def body(ctx: Context, config: object) -> None:
        async def listen(_fiber, new, _no_save, proceed) -> None:
            heard.append((config, new))
            await proceed()

        ctx.on(Internal.UPDATE, listen)

    fiber = await root.plugin(body, "a")
    await fiber.restart()
    await fiber.update("b")
    await fiber.update("c")
    assert heard == [("a", "b"), ("b", "c")]


def accepting(runs: list[object]):
    """A plugin that takes new configuration without a restart."""

    def body(ctx: Context, config: object) -> None:
        async def accept(_fiber, _config, _no_save, _next) -> None:
            return

        runs.append(config)
        ctx.on(Internal.UPDATE, accept)

    return body


async def test_configuration_accepted_in_place_is_kept_by_a_later_restart(root: Context):
    runs: list[object] = []
    fiber = await root.plugin(accepting(runs), 1)
    await fiber.update(2)
    await fiber.restart()
    assert runs == [1, 2]


async def test_configuration_that_reads_the_same_is_resolved_again_in_place(root: Context):
    sizes, raw = iter([1, 2]), object()
    body = accepting([])
    fiber = await root.plugin(body, raw, interpolate=lambda _ctx, _raw: next(sizes))
    await fiber.update(raw)
    assert fiber.config == 2


class Slow:
    """Accepts small numbers in place, when it is let go on; restarts for others."""

    def __init__(self) -> None:
        self.runs: list[object] = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()

    def apply(self, ctx: Context, config: int) -> None:
        self.runs.append(config)
        ctx.on(Internal.UPDATE, self._accept)

    async def _accept(self, _fiber: object, config: int, _no_save: bool, proceed) -> None:
        if config > 9:
            await proceed()
        else:
            self.asked.set()
            await self.gate.wait()


async def test_what_an_activation_accepted_that_is_gone_is_given_to_the_next(root: Context):
    slow = Slow()
    fiber = await root.plugin(slow, 1)
    update = asyncio.ensure_future(fiber.update(2))
    await slow.asked.wait()
    await fiber.restart()
    slow.gate.set()
    await update
    assert (slow.runs, fiber.config) == ([1, 1, 2], 2)


async def test_an_update_that_was_overtaken_changes_nothing(root: Context):
    slow = Slow()
    fiber = await root.plugin(slow, 1)
    late = asyncio.ensure_future(fiber.update(2))
    await slow.asked.wait()
    await fiber.update(10)
    slow.gate.set()
    await late
    assert (slow.runs, fiber.config) == ([1, 10], 10)
