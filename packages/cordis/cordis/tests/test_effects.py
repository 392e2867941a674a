"""Effects: order, nesting, rollback, asynchronous setup and cleanup."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import Context, CordisError, EffectInfo, Emit

pytestmark = pytest.mark.anyio

PING = Emit[str]("test/ping")


def adding(log: list[str], name: str):
    return lambda: log.append(name)


async def test_disposers_of_one_effect_run_in_reverse_order(root: Context):
    log: list[str] = []

    def setup():
        for name in "abc":
            yield adding(log, name)

    assert root.effect(setup)() is None
    assert log == ["c", "b", "a"]


async def test_inside_one_effect_an_asynchronous_disposer_is_waited_for(root: Context):
    log: list[str] = []
    gate = asyncio.Event()

    async def slow() -> None:
        log.append("b starts")
        await gate.wait()
        log.append("b ends")

    def setup():
        yield adding(log, "a")
        yield slow
        yield adding(log, "c")

    end = root.effect(setup)()
    await asyncio.sleep(0)
    assert log == ["c", "b starts"]
    gate.set()
    await end
    assert log == ["c", "b starts", "b ends", "a"]


async def test_across_effects_cleanups_overlap_and_the_later_starts_first(root: Context):
    log: list[str] = []
    gate = asyncio.Event()

    def cleaning(name: str):
        async def cleanup() -> None:
            log.append(f"{name} starts")
            await gate.wait()
            log.append(f"{name} ends")

        return cleanup

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: cleaning("first"))
        ctx.effect(lambda: cleaning("second"))

    fiber = await root.plugin(body)
    end = fiber.dispose()
    while len(log) < 2:
        await asyncio.sleep(0)
    assert log == ["second starts", "first starts"]
    gate.set()
    await end
    assert len(log) == 4


async def test_second_call_of_a_disposer_does_nothing(root: Context):
    log: list[str] = []
    effect = root.effect(lambda: adding(log, "x"))
    effect()
    assert effect() is None
    assert log == ["x"]


@pytest.mark.parametrize("bad", [3, "text", [lambda: None]])
async def test_result_that_is_no_disposer_is_refused(root: Context, bad: object):
    with pytest.raises(TypeError, match="Invalid effect"):
        root.effect(lambda: bad)
    assert root.fiber.get_effects() == ()


async def test_generator_that_raises_is_rolled_back_once(root: Context):
    log: list[str] = []

    def setup():
        yield adding(log, "undo")
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        root.effect(setup)
    assert log == ["undo"]
    assert root.fiber.get_effects() == ()


async def test_invalid_yield_rolls_back_and_closes_the_generator(root: Context):
    log: list[str] = []

    def setup():
        try:
            yield adding(log, "undo")
            yield 3
        finally:
            log.append("closed")

    with pytest.raises(TypeError, match="Invalid effect"):
        root.effect(setup)
    assert log == ["closed", "undo"]


async def test_asynchronous_setup_can_be_awaited(root: Context):
    log: list[str] = []

    async def setup():
        await asyncio.sleep(0)
        log.append("ready")
        return adding(log, "undo")

    effect = root.effect(setup)
    assert log == []
    assert await effect is effect
    effect()
    assert log == ["ready", "undo"]


async def test_asynchronous_setup_that_fails_rolls_back_and_raises_to_its_awaiter(root: Context):
    log: list[str] = []

    async def setup():
        yield adding(log, "undo")
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        await root.effect(setup)
    assert log == ["undo"]
    assert root.fiber.get_effects() == ()


async def test_setup_failure_nobody_awaits_is_logged(root: Context, caplog):
    async def setup():
        raise ValueError("unseen")

    root.effect(setup, "my effect")
    while root.fiber.get_effects():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "my effect of 'root' failed" in caplog.text


async def test_disposing_during_setup_waits_for_it_and_pulls_no_further(root: Context):
    log: list[str] = []
    gate = asyncio.Event()

    async def setup():
        try:
            await gate.wait()
            yield adding(log, "undo a")
            log.append("never")
            yield adding(log, "undo b")
        finally:
            log.append("closed")

    effect = root.effect(setup)
    end = effect()
    await asyncio.sleep(0)
    assert log == []
    gate.set()
    await end
    assert log == ["closed", "undo a"]


async def test_unload_waits_for_a_setup_in_progress_and_its_cleanup(root: Context):
    log: list[str] = []
    gate = asyncio.Event()

    async def setup():
        await gate.wait()
        log.append("ready")
        return adding(log, "undo")

    fiber = await root.plugin(lambda ctx, _config: ctx.effect(setup))
    end = fiber.dispose()
    await asyncio.sleep(0)
    gate.set()
    await end
    assert log == ["ready", "undo"]


async def test_restart_requested_inside_an_asynchronous_setup_ends_active(root: Context):
    log: list[str] = []
    restarts: list[object] = []

    def body(ctx: Context, _config: object) -> None:
        async def setup():
            if not restarts:
                await asyncio.sleep(0)
                restarts.append(ctx.fiber.restart())
                await asyncio.sleep(0)
            log.append("ready")
            return adding(log, "undo")

        ctx.effect(setup)

    fiber = await root.plugin(body)
    while not restarts:
        await asyncio.sleep(0)
    await restarts[0]
    assert log[:2] == ["ready", "undo"]
    assert fiber.state == 2


async def test_effect_inside_a_disposer_is_refused_and_the_restart_completes(root: Context):
    codes: list[str] = []

    def body(ctx: Context, _config: object):
        def cleanup() -> None:
            try:
                ctx.effect(lambda: None)
            except CordisError as error:
                codes.append(error.code)
                assert str(error) == "cannot create effect on inactive context"

        return cleanup

    fiber = await root.plugin(body)
    await fiber.restart()
    assert codes == ["INACTIVE_EFFECT"]
    assert fiber.state == 2


async def test_yielded_exact_disposer_takes_its_place_in_the_outer_effect(root: Context):
    log: list[str] = []

    def body(ctx: Context, _config: object) -> None:
        inner = ctx.effect(lambda: adding(log, "inner"), "inner")

        def setup():
            yield adding(log, "before")
            yield inner
            yield adding(log, "after")

        ctx.effect(setup, "outer")

    fiber = await root.plugin(body)
    assert fiber.get_effects() == (EffectInfo("outer", (EffectInfo("inner", ()),)),)
    await fiber.dispose()
    assert log == ["after", "inner", "before"]


async def test_wrapped_disposer_stays_a_sibling(root: Context):
    log: list[str] = []

    def body(ctx: Context, _config: object) -> None:
        inner = ctx.effect(lambda: adding(log, "inner"), "inner")

        def setup():
            yield adding(log, "before")
            yield lambda: inner()
            yield adding(log, "after")

        ctx.effect(setup, "outer")

    fiber = await root.plugin(body)
    assert [info.label for info in fiber.get_effects()] == ["inner", "outer"]
    await fiber.dispose()
    assert log.count("inner") == 1


async def test_inner_effect_disposed_by_itself_leaves_the_outer_one(root: Context):
    log: list[str] = []
    inner = root.effect(lambda: adding(log, "inner"), "inner")
    outer = root.effect(lambda: iter([inner]), "outer")
    inner()
    assert root.fiber.get_effects() == (EffectInfo("outer", ()),)
    outer()
    assert log == ["inner"]


async def test_child_plugin_can_be_yielded_into_an_effect(root: Context):
    log: list[str] = []

    def setup():
        yield adding(log, "outer")
        yield root.plugin(lambda _ctx, _config: adding(log, "child"))

    effect = root.effect(setup)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await effect()
    assert log == ["child", "outer"]


async def test_labels_name_what_registered_them(root: Context):
    from dsh_cordis import ServiceKey

    root.on(PING, lambda _text: None)
    root.provide(ServiceKey[int]("n"), 1)
    root.effect(lambda: lambda: None)
    await root.plugin(lambda _ctx, _config: None)
    labels = [info.label for info in root.fiber.get_effects()]
    assert labels == ['ctx.on("test/ping")', 'ctx.provide("n")', "anonymous", "ctx.plugin()"]


async def test_several_failing_disposers_are_raised_together(root: Context):
    def setup():
        yield lambda: 1 // 0
        yield lambda: {}.pop(0)

    with pytest.raises(ExceptionGroup) as caught:
        root.effect(setup)()
    assert {type(error) for error in caught.value.exceptions} == {ZeroDivisionError, KeyError}


async def test_cleanup_finishes_although_nobody_awaits_it(root: Context, caplog):
    done = asyncio.Event()

    async def cleanup() -> None:
        await asyncio.sleep(0)
        done.set()
        raise RuntimeError("late failure")

    root.effect(lambda: cleanup, "mine")()
    await done.wait()
    while root.fiber.get_effects():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "cleanup of mine of 'root' failed" in caplog.text


async def test_unload_waits_for_an_asynchronous_rollback(root: Context):
    gate, log = asyncio.Event(), []

    async def undo() -> None:
        await gate.wait()
        log.append("rolled back")

    def body(ctx: Context, _config: object) -> None:
        def setup():
            yield undo
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            ctx.effect(setup)

    fiber = await root.plugin(body)
    end = fiber.dispose()
    await asyncio.sleep(0)
    assert log == []
    gate.set()
    await end
    assert log == ["rolled back"]


async def test_effect_that_yields_itself_is_refused(root: Context):
    log: list[str] = []

    async def setup():
        yield adding(log, "undo")
        await asyncio.sleep(0)
        yield effect

    effect = root.effect(setup)
    with pytest.raises(TypeError, match="Invalid effect"):
        await effect
    assert log == ["undo"]
    assert root.fiber.get_effects() == ()


async def test_setup_that_fails_while_its_disposal_waits_is_logged_once(root: Context, caplog):
    gate = asyncio.Event()

    async def setup():
        await gate.wait()
        raise ValueError("unseen")

    effect = root.effect(setup, "mine")
    effect()
    gate.set()
    while root.fiber.get_effects():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(caplog.records) == 1
