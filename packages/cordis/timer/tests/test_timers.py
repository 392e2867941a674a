"""Timers on the real kernel and the real clock; tests wait for what happens, never for a time."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import Context
from dsh_cordis_timer import TIMER, TimerError, Timers

pytestmark = pytest.mark.anyio

LONG_MS = 3_600_000


@pytest.fixture
async def root():
    async with Context() as ctx:
        await ctx.plugin(Timers)
        yield ctx


async def user(root: Context, run):
    """A plugin that calls `run(timers)`."""
    return await root.plugin(lambda ctx, _config: run(ctx[TIMER]) and None, inject=[TIMER])


async def test_timeout_runs_its_callback_once(root: Context):
    fired = asyncio.Event()
    await user(root, lambda timers: timers.timeout(1, fired.set))
    await fired.wait()


async def test_cancelled_timeout_leaves_nothing(root: Context):
    effects: list[object] = []
    fiber = await user(root, lambda timers: effects.append(timers.timeout(LONG_MS, lambda: None)))
    assert [info.label for info in fiber.get_effects()] == ["ctx.timeout()"]
    effects[0]()
    assert fiber.get_effects() == ()


async def test_fired_timeout_leaves_nothing(root: Context):
    fired = asyncio.Event()
    fiber = await user(root, lambda timers: timers.timeout(1, fired.set))
    await fired.wait()
    assert fiber.get_effects() == ()


async def test_timer_ends_with_the_plugin_that_started_it_not_with_the_service(root: Context):
    fired: list[bool] = []
    fiber = await user(root, lambda timers: timers.timeout(5, lambda: fired.append(True)))
    await fiber.dispose()
    await root[TIMER].timeout(10)
    assert fired == []


async def test_awaited_timeout_raises_when_its_plugin_is_disposed(root: Context):
    waits: list[asyncio.Future[None]] = []
    fiber = await user(root, lambda timers: waits.append(timers.timeout(LONG_MS)))
    await fiber.dispose()
    with pytest.raises(TimerError, match="Context has been disposed") as caught:
        await waits[0]
    assert caught.value.code == "DISPOSED"


async def test_awaited_timeout_resolves(root: Context):
    await root[TIMER].timeout(1)
    await asyncio.sleep(0)
    assert "ctx.timeout()" not in [info.label for info in root.fiber.get_effects()]


async def test_failing_callback_is_logged_under_its_plugin(root: Context, caplog):
    await user(root, lambda timers: timers.timeout(1, lambda: 1 // 0))
    while not caplog.records:
        await asyncio.sleep(0.001)
    assert "timer callback" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_interval_ticks_until_it_is_stopped(root: Context):
    ticks: asyncio.Queue[int] = asyncio.Queue()
    effects: list[object] = []
    fiber = await user(
        root, lambda timers: effects.append(timers.interval(1, lambda: ticks.put_nowait(1)))
    )
    for _ in range(3):
        await ticks.get()
    effects[0]()
    assert fiber.get_effects() == ()


async def test_interval_skips_ticks_while_its_callback_runs(root: Context):
    running, gate, started = [0], asyncio.Event(), []

    async def callback() -> None:
        running[0] += 1
        started.append(running[0])
        await gate.wait()
        running[0] -= 1

    timers = root[TIMER]
    stop = timers.interval(1, callback)
    await timers.timeout(20)
    assert started == [1]
    stop()
    gate.set()


async def test_interval_iterator_ticks_and_raises_on_dispose(root: Context):
    ticked, errors, ended = asyncio.Event(), [], asyncio.Event()

    async def consume(ticks) -> None:
        try:
            async for _ in ticks:
                ticked.set()
        except TimerError as error:
            errors.append(str(error))
        ended.set()

    iterators: list[object] = []
    fiber = await user(root, lambda timers: iterators.append(timers.interval(1)))
    consumer = asyncio.ensure_future(consume(iterators[0]))
    await ticked.wait()
    await fiber.dispose()
    await ended.wait()
    await consumer
    assert errors == ["Context has been disposed"]


async def test_throttle_runs_at_once_then_with_the_latest_arguments(root: Context):
    seen: asyncio.Queue[str] = asyncio.Queue()
    throttled = root[TIMER].throttle(5, seen.put_nowait)
    for text in ("a", "b", "c"):
        throttled(text)
    assert [await seen.get(), await seen.get()] == ["a", "c"]
    throttled.dispose()


async def test_throttle_without_trailing_drops_early_calls(root: Context):
    seen: list[str] = []
    throttled = root[TIMER].throttle(5, seen.append, trailing=False)
    throttled("a")
    throttled("b")
    await root[TIMER].timeout(10)
    assert seen == ["a"]
    throttled.dispose()


async def test_debounce_runs_once_with_the_latest_arguments(root: Context):
    seen: asyncio.Queue[str] = asyncio.Queue()
    debounced = root[TIMER].debounce(1, seen.put_nowait)
    for text in ("a", "b", "c"):
        debounced(text)
    assert await seen.get() == "c"
    assert seen.empty()


async def test_pending_debounce_never_fires_after_dispose(root: Context):
    seen: list[str] = []
    made: list[object] = []
    fiber = await user(root, lambda timers: made.append(timers.debounce(5, seen.append)))
    made[0]("a")
    await fiber.dispose()
    made[0]("b")
    await root[TIMER].timeout(10)
    assert seen == []


async def test_disposing_a_throttled_callable_drops_the_run_that_waits(root: Context):
    seen: list[str] = []
    throttled = root[TIMER].throttle(5, seen.append)
    throttled("a")
    throttled("b")
    throttled.dispose()
    throttled("c")
    await root[TIMER].timeout(10)
    assert seen == ["a"]


async def test_disposing_a_debounced_callable_drops_the_run_that_waits(root: Context):
    seen: list[str] = []
    debounced = root[TIMER].debounce(5, seen.append)
    debounced("a")
    debounced.dispose()
    await root[TIMER].timeout(10)
    assert seen == []
    assert not [one for one in root.fiber.get_effects() if one.label == "ctx.debounce()"]


async def test_the_timers_are_attributes_of_every_context_and_belong_to_who_reads_them(
    root: Context,
):
    waits: list[asyncio.Future[None]] = []
    fiber = await root.plugin(lambda ctx, _config: waits.append(ctx.timeout(50)), inject=[TIMER])
    assert [info.label for info in fiber.get_effects()] == ["ctx.timeout()"]
    await fiber.dispose()
    with pytest.raises(TimerError, match="Context has been disposed"):
        await waits[0]


async def test_without_the_service_no_context_has_timers():
    async with Context() as root:
        service = await root.plugin(Timers)
        assert callable(root.timeout)
        await service.dispose()
        assert root.timeout is None
