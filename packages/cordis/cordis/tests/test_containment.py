"""What one plugin does wrong, or does in the middle of something, stays with it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
from dsh_cordis import (
    Bail,
    Context,
    CordisError,
    Emit,
    Fiber,
    FiberState,
    Internal,
    Parallel,
    Serial,
    ServiceKey,
    plugin_failure,
)

pytestmark = pytest.mark.anyio

FOO = ServiceKey[str]("foo")
BAR = ServiceKey[str]("bar")
PING = Emit[()]("containment/ping")
ALL = Parallel[()]("containment/all")


def bring_up(error: BaseException) -> Callable[..., None]:
    def call(*_args: object) -> None:
        raise error

    return call


class Panic(BaseException):
    """As extension modules raise it."""


STOPS = [asyncio.CancelledError(), SystemExit(3), BaseExceptionGroup("two", [SystemExit(3)])]
ODD = [Panic("odd"), KeyboardInterrupt()]
"""What passes `except Exception` without a request to stop."""


@pytest.fixture
def own_interrupts() -> Iterator[None]:
    """A program that handles Ctrl+C in a way of its own."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


async def test_an_error_that_cannot_be_shown_fails_its_plugin_only(root: Context, caplog):
    class Silent(Exception):
        def __repr__(self) -> str:
            raise ValueError("no text")

    fiber = root.plugin(bring_up(Silent()))
    with pytest.raises(Silent):
        await fiber
    assert fiber.state is FiberState.FAILED
    assert "<Silent, whose repr failed>" in caplog.text


@pytest.mark.parametrize("error", STOPS, ids=lambda error: type(error).__name__)
async def test_a_disposer_that_stops_does_not_stop_its_peers(root: Context, caplog, error):
    undone: list[int] = []

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: lambda: undone.append(1))
        ctx.effect(lambda: iter([lambda: undone.append(2), bring_up(error), lambda: 1 // 0]))

    fiber = await root.plugin(body)
    await fiber.dispose()
    assert (undone, fiber.state) == ([2, 1], FiberState.DISPOSED)
    assert "cleanup of anonymous" in caplog.text


@pytest.mark.parametrize("error", STOPS, ids=lambda error: type(error).__name__)
async def test_an_asynchronous_disposer_that_stops_does_not_stop_its_peers(root: Context, error):
    undone: list[int] = []

    async def cleanup() -> None:
        await asyncio.sleep(0)
        raise error

    def body(ctx: Context, _config: object) -> None:
        ctx.effect(lambda: iter([lambda: undone.append(1), cleanup]))

    fiber = await root.plugin(body)
    await fiber.dispose()
    assert (undone, fiber.state) == ([1], FiberState.DISPOSED)


@pytest.mark.usefixtures("own_interrupts")
@pytest.mark.parametrize("error", [*STOPS, *ODD], ids=lambda error: type(error).__name__)
async def test_a_body_or_its_configuration_that_stops_fails_the_plugin(root: Context, error):
    async def later(_ctx: Context, _config: object) -> None:
        await asyncio.sleep(0)
        raise error

    def interpolate(_ctx: Context, _raw: object) -> object:
        raise error

    for fiber in (
        root.plugin(later),
        root.plugin(bring_up(error)),
        root.plugin(lambda *_: None, interpolate=interpolate),
    ):
        await fiber.quiet()
        assert fiber.state is FiberState.FAILED
        with pytest.raises((asyncio.CancelledError, CordisError, BaseExceptionGroup)):
            await fiber


@pytest.mark.usefixtures("own_interrupts")
@pytest.mark.parametrize("error", [SystemExit(3), *ODD], ids=lambda error: type(error).__name__)
async def test_a_task_that_exits_is_a_failure_of_its_plugin(root: Context, caplog, error):
    async def leave() -> None:
        await asyncio.sleep(0)
        raise error

    task = root.spawn(leave)
    with pytest.raises(CordisError) as caught:
        await task
    assert caught.value.code == "PLUGIN_EXIT"
    root.on(PING, leave)
    root.emit(PING)
    await until(lambda: "listener of containment/ping" in caplog.text)


def test_a_plugin_raises_what_looks_like_ctrl_c_and_ctrl_c_passes():
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    def caught(pressed: bool) -> BaseException:
        try:
            signal.raise_signal(signal.SIGINT) if pressed else interrupted()
        except KeyboardInterrupt as error:
            return error
        raise AssertionError

    def on_interrupt(*_args: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (on_interrupt, functools.partial(on_interrupt)):
            signal.signal(signal.SIGINT, handler)
            with pytest.raises(KeyboardInterrupt):
                plugin_failure(caught(pressed=True))
            assert plugin_failure(caught(pressed=False)).code == "PLUGIN_EXIT"
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            plugin_failure(caught(pressed=False))
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_hosted_manager_that_exits_fails_who_enters_it(root: Context):
    @contextlib.asynccontextmanager
    async def leaving():
        sys.exit(3)
        yield

    with pytest.raises(CordisError) as caught:
        await root.host(leaving())
    assert caught.value.code == "PLUGIN_EXIT"


async def test_a_stop_function_that_exits_does_not_keep_its_task(root: Context):
    def body(ctx: Context, _config: object) -> None:
        ctx.spawn(asyncio.Event().wait, stop=bring_up(SystemExit(3)))

    fiber = await root.plugin(body)
    await fiber.dispose()
    assert fiber.state is FiberState.DISPOSED


@pytest.mark.parametrize("error", STOPS, ids=lambda error: type(error).__name__)
async def test_parallel_runs_all_whatever_one_of_them_raises(root: Context, error):
    ran: list[str] = []

    async def first() -> None:
        await asyncio.sleep(0)
        ran.append("first")

    async def later() -> None:
        await asyncio.sleep(0)
        raise error

    for listener in (first, bring_up(error), later, lambda: ran.append("last")):
        root.on(ALL, listener)
    with pytest.raises(BaseExceptionGroup) as caught:
        await root.parallel(ALL)
    assert len(caught.value.exceptions) == 2
    assert ran == ["last", "first"]


async def test_a_cancelled_parallel_cancels_its_listeners_and_warns_of_none(root: Context):
    async def listener() -> None:
        await asyncio.Event().wait()

    root.on(ALL, listener)
    for turns in range(3):
        task = asyncio.ensure_future(root.parallel(ALL))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gc.collect()


@pytest.mark.parametrize("error", STOPS, ids=lambda error: type(error).__name__)
async def test_contained_serial_and_bail_go_on_after_a_listener_that_stops(root: Context, error):
    one = Serial[int]("containment/serial", contained=True)
    other = Bail[int]("containment/bail", contained=True)
    for key in (one, other):
        root.on(key, bring_up(error))
        root.on(key, lambda: 7)
    assert await root.serial(one) == 7
    assert root.bail(other) == 7


async def test_a_plugin_disposed_while_its_configuration_is_made_does_not_run(root: Context):
    runs: list[object] = []

    def end(ctx: Context, raw: object) -> object:
        ctx.fiber.dispose()
        return raw

    fiber = root.plugin(lambda _ctx, _config: runs.append(1), interpolate=end)
    await fiber.quiet()
    assert (runs, fiber.state) == ([], FiberState.DISPOSED)


async def test_restart_during_a_body_that_then_fails_is_honoured(root: Context):
    gate, runs = asyncio.Event(), []

    async def body(_ctx: Context, _config: object) -> None:
        runs.append(len(runs))
        await gate.wait()
        if len(runs) == 1:
            raise ValueError("first time")

    fiber = root.plugin(body)
    await until(lambda: bool(runs))
    again = fiber.restart()
    gate.set()
    await again
    assert (runs, fiber.state, fiber.error) == ([0, 1], FiberState.ACTIVE, None)


async def test_a_failure_after_its_service_was_replaced_is_tried_again(root: Context):
    gate, runs = asyncio.Event(), []

    async def body(ctx: Context, _config: object) -> None:
        runs.append(ctx[FOO])
        await gate.wait()
        if runs == ["one"]:
            raise ValueError("what I was using is gone")

    first = root.provide(FOO, "one")
    fiber = root.plugin(body, inject=(FOO,))
    await until(lambda: bool(runs))
    gone = first()
    root.provide(FOO, "two")
    gate.set()
    await gone
    await fiber
    assert (runs, fiber.state) == (["one", "two"], FiberState.ACTIVE)


async def test_a_plugin_that_needs_what_its_child_provides_can_end(root: Context):
    def provide(ctx: Context, _config: object) -> None:
        ctx.provide(FOO, "x")

    async def nested() -> tuple[Fiber, Fiber]:
        owner = root.plugin(lambda _ctx, _config: None, inject=(FOO,))
        child = await owner.ctx.plugin(provide)
        assert (await owner).state is FiberState.ACTIVE
        return owner, child

    owner, child = await nested()
    await owner.dispose()
    assert (owner.state, child.state) == (FiberState.DISPOSED, FiberState.DISPOSED)
    owner, child = await nested()
    await child.restart()
    await owner
    assert (owner.state, child.state) == (FiberState.PENDING, FiberState.DISPOSED)


async def test_a_circle_of_owners_and_services_can_end(root: Context):
    def give(key: ServiceKey[str]):
        return lambda ctx, _config: ctx.provide(key, "x")

    one = root.plugin(lambda _ctx, _config: None, inject=(FOO,))
    two = root.plugin(lambda _ctx, _config: None, inject=(BAR,))
    one.ctx.plugin(give(BAR))
    two.ctx.plugin(give(FOO))
    await until(lambda: one.active and two.active)
    await one.dispose()
    await two
    assert (one.state, two.state) == (FiberState.DISPOSED, FiberState.PENDING)


async def test_a_consumer_that_awaits_the_end_of_its_provider_is_refused(root: Context):
    codes: list[str] = []
    providers: list[Fiber] = []

    async def end() -> None:
        try:
            await providers[-1].dispose()
        except CordisError as error:
            codes.append(error.code)

    async def in_body(_ctx: Context, _config: object) -> None:
        await end()

    def in_cleanup(_ctx: Context, _config: object):
        return end

    def in_task(ctx: Context, _config: object) -> None:
        ctx.spawn(end)  # simply stopped, as every task of a plugin that unloads

    for body in (in_body, in_cleanup, in_task):
        providers.append(await root.plugin(lambda ctx, _config: ctx.provide(FOO, "x")))
        fiber = root.plugin(body, inject=(FOO,))
        await fiber.quiet()
        await fiber.restart()
        await until(lambda: providers[-1].state is FiberState.DISPOSED)
        await fiber.dispose()
    assert codes == ["SELF_DISPOSAL", "SELF_DISPOSAL"]


async def test_a_child_does_not_start_while_its_owner_unloads(root: Context):
    gate, runs, started = asyncio.Event(), [], asyncio.Event()

    async def stubborn() -> None:
        started.set()
        await gate.wait()

    def child(_ctx: Context, _config: object) -> None:
        runs.append(1)

    child.inject = (FOO,)
    children: list[Fiber] = []

    def owner(ctx: Context, _config: object) -> None:
        ctx.spawn(stubborn, stop=lambda: None)
        children.append(ctx.plugin(child))

    fiber = await root.plugin(owner)
    await started.wait()
    end = fiber.dispose()
    root.provide(FOO, "x")
    await children[0].quiet()
    gate.set()
    await end
    assert (runs, children[0].state) == ([], FiberState.DISPOSED)


async def test_an_asynchronous_listener_that_never_began_is_dropped_without_a_warning(
    root: Context,
):
    async def listener() -> None:
        await asyncio.sleep(0)

    def body(ctx: Context, _config: object) -> None:
        ctx.on(PING, listener)
        ctx.emit(PING)
        raise ValueError("unloads before the listener's first step")

    fiber = root.plugin(body)
    await fiber.quiet()
    gc.collect()
    assert fiber.state is FiberState.FAILED


@pytest.mark.parametrize("error", STOPS, ids=lambda error: type(error).__name__)
async def test_observers_of_states_and_ends_cannot_disturb_them(root: Context, error):
    root.on(Internal.STATUS, bring_up(error))

    def refuse_ends(fiber: Fiber) -> None:
        if fiber.uid is None:
            raise error

    root.on(Internal.PLUGIN, refuse_ends)
    fiber = await root.plugin(lambda ctx, _config: ctx.provide(FOO, "x"))
    assert root.get(FOO) == "x"
    await fiber.restart()
    await fiber.dispose()
    assert (root.get(FOO), fiber.state) == (None, FiberState.DISPOSED)
