"""Background tasks and hosted context managers."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars

import anyio
import pytest
from dsh_cordis import Context, CordisError, current_fiber

pytestmark = pytest.mark.anyio

CALLER = contextvars.ContextVar("caller", default="nobody")


async def test_task_ends_with_its_fiber_before_disposers_run(root: Context):
    log: list[str] = []
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            log.append("task ended")

    def body(ctx: Context, _config: object):
        ctx.spawn(work)
        return lambda: log.append("disposed")

    fiber = await root.plugin(body)
    await started.wait()
    await fiber.dispose()
    assert log == ["task ended", "disposed"]


async def test_task_stopped_before_its_first_step_does_not_run(root: Context):
    ran: list[bool] = []

    async def work() -> None:
        ran.append(True)

    def body(ctx: Context, _config: object):
        ctx.effect(lambda: lambda: None)
        tasks.append(ctx.spawn(work))
        raise RuntimeError("the body fails in the step that spawned")

    tasks: list[asyncio.Task[None]] = []
    fiber = root.plugin(body)
    await fiber.quiet()
    assert tasks[0].done()
    assert ran == []


async def test_failing_task_is_logged_and_its_siblings_live(root: Context, caplog):
    gate = asyncio.Event()
    done: list[str] = []

    async def bad() -> None:
        raise RuntimeError("task broke")

    async def good() -> None:
        await gate.wait()
        done.append("good")

    def body(ctx: Context, _config: object) -> None:
        ctx.spawn(bad, name="the bad one")
        tasks.append(ctx.spawn(good))

    tasks: list[asyncio.Task[None]] = []
    await root.plugin(body, name="worker")
    while not caplog.records:
        await asyncio.sleep(0)
    assert "the bad one of 'worker' failed" in caplog.text
    assert caplog.records[0].fiber == "worker"
    gate.set()
    await tasks[0]
    assert done == ["good"]


async def test_result_and_failure_of_a_task_reach_who_awaits_it(root: Context):
    async def add(a: int, b: int) -> int:
        return a + b

    async def bad() -> None:
        raise RuntimeError("seen")

    assert await root.spawn(add, 1, 2) == 3
    with pytest.raises(RuntimeError, match="seen"):
        await root.spawn(bad)


async def test_unload_calls_stop_instead_of_cancelling_and_waits(root: Context):
    log: list[str] = []
    stop, drained = asyncio.Event(), asyncio.Event()

    async def drive() -> None:
        await stop.wait()
        log.append("stopping")
        await drained.wait()
        log.append("drained")

    fiber = await root.plugin(lambda _ctx, _config: None)
    fiber.ctx.spawn(drive, stop=stop.set)
    await asyncio.sleep(0)
    end = fiber.dispose()
    while not log:
        await asyncio.sleep(0)
    assert fiber.inertia is not None
    drained.set()
    await end
    assert log == ["stopping", "drained"]


async def test_task_whose_stop_raises_is_cancelled_like_others(root: Context, caplog):
    fiber = await root.plugin(lambda _ctx, _config: None)
    fiber.ctx.spawn(asyncio.sleep, 3600, stop=lambda: 1 // 0, name="stubborn")
    await asyncio.sleep(0)
    await fiber.dispose()
    assert "stop of stubborn" in caplog.text


async def test_task_that_does_not_end_is_named_in_the_log(root: Context, caplog, monkeypatch):
    monkeypatch.setattr("dsh_cordis._tasks.STOP_WARNING_S", 0.01)
    release = asyncio.Event()
    fiber = await root.plugin(lambda _ctx, _config: None, name="slow plugin")
    fiber.ctx.spawn(release.wait, stop=lambda: None, name="log writer")
    end = fiber.dispose()
    while not caplog.records:
        await asyncio.sleep(0.001)
    assert caplog.records[0].getMessage() == "'slow plugin' still waits for: log writer"
    release.set()
    await end


async def test_tasks_run_with_the_variables_of_the_root_not_of_the_caller(root: Context):
    seen: list[str] = []

    async def look() -> None:
        seen.append(CALLER.get())

    async def body(ctx: Context, _config: object) -> None:
        seen.append(CALLER.get())
        await ctx.spawn(look)

    CALLER.set("agent-1")
    await root.plugin(body)
    assert seen == ["nobody", "nobody"]


async def test_anyio_works_inside_a_task(root: Context):
    log: list[str] = []
    started = asyncio.Event()

    async def work() -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 3600)
                started.set()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0)
                log.append("cleaned")

    fiber = await root.plugin(lambda _ctx, _config: None)
    fiber.ctx.spawn(work)
    await started.wait()
    await fiber.dispose()
    assert log == ["cleaned"]


async def test_spawning_on_a_disposed_fiber_is_refused(root: Context):
    fiber = await root.plugin(lambda _ctx, _config: None)
    await fiber.dispose()
    with pytest.raises(CordisError) as caught:
        fiber.ctx.spawn(asyncio.sleep, 0)
    assert caught.value.code == "INACTIVE_EFFECT"


@contextlib.asynccontextmanager
async def client(log: list[str], *, breaks: asyncio.Event | None = None):
    async with anyio.create_task_group() as group:

        async def reader() -> None:
            try:
                if breaks is None:
                    await anyio.sleep(3600)
                else:
                    await breaks.wait()
                    raise ConnectionError("pipe broke")
            finally:
                log.append("reader ended")

        group.start_soon(reader)
        yield "session"
        group.cancel_scope.cancel()
    log.append("closed")


async def test_hosted_manager_with_a_task_group_is_left_at_unload(root: Context):
    log: list[str] = []
    values: list[str] = []

    async def body(ctx: Context, _config: object) -> None:
        values.append(await ctx.host(client(log)))

    fiber = await root.plugin(body)
    assert (values, log) == (["session"], [])
    await fiber.dispose()
    assert log == ["reader ended", "closed"]


async def test_hosted_manager_that_breaks_later_is_logged(root: Context, caplog):
    log: list[str] = []
    breaks = asyncio.Event()
    await root.host(client(log, breaks=breaks))
    breaks.set()
    while not caplog.records:
        await asyncio.sleep(0)
    assert "host of _AsyncGeneratorContextManager of 'root' failed" in caplog.text
    assert log == ["reader ended"]


async def test_failure_to_enter_reaches_the_caller_and_leaves_nothing(root: Context):
    @contextlib.asynccontextmanager
    async def broken():
        await asyncio.sleep(0)
        raise ConnectionError("refused")
        yield

    with pytest.raises(ConnectionError, match="refused"):
        await root.host(broken())
    while root.fiber.get_effects():
        await asyncio.sleep(0)


async def test_manager_whose_caller_was_cancelled_is_left_again(root: Context):
    log: list[str] = []
    entering, gate = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def slow():
        entering.set()
        await gate.wait()
        yield
        log.append("left")

    caller = asyncio.ensure_future(root.host(slow()))
    await entering.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    gate.set()
    while root.fiber.get_effects():
        await asyncio.sleep(0)
    assert log == ["left"]


async def test_a_body_and_its_tasks_run_as_their_fiber_and_foreign_tasks_as_none(root: Context):
    seen: list[object] = [current_fiber()]

    async def work() -> None:
        seen.append(current_fiber())

    async def body(ctx: Context, _config: object) -> None:
        seen.append(current_fiber())
        await ctx.spawn(work)

    fiber = await root.plugin(body)
    assert seen == [None, fiber, fiber]
