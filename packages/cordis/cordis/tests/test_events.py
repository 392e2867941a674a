"""Dispatch modes, order, targets."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest
from dsh_cordis import (
    Bail,
    Context,
    CordisError,
    Emit,
    EventKey,
    Internal,
    Key,
    Parallel,
    Serial,
    ServiceKey,
    SyncWaterfall,
    Waterfall,
)

pytestmark = pytest.mark.anyio

EMIT = Emit[str]("test/emit")
QUIET = Emit[str]("test/quiet", contained=True)
PARALLEL = Parallel[str]("test/parallel")
SERIAL = Serial[int, str]("test/serial")
BAIL = Bail[int, str]("test/bail")
WATERFALL = Waterfall[str, str]("test/waterfall")
SYNC = SyncWaterfall[str, str]("test/sync-waterfall")


def raising(_text: str) -> None:
    raise ValueError("listener")


async def araising(_text: str) -> None:
    raise ValueError("listener")


def test_keys_of_equal_kind_and_name_are_one_object():
    assert Emit("a") is Emit[int]("a")
    assert ServiceKey("x") is ServiceKey[int]("x")
    assert Emit("a") is not Parallel("a")
    assert Emit("a") != Parallel("a")
    assert len({ServiceKey("x"), ServiceKey("x"), ServiceKey("y")}) == 2
    assert isinstance(EMIT, EventKey)
    assert isinstance(EMIT, Key)
    assert repr(EMIT) == "Emit('test/emit')"


def test_module_imported_again_has_the_keys_it_had_with_its_new_rules(tmp_path, monkeypatch):
    import importlib

    (tmp_path / "reloaded_keys.py").write_text(
        'from dsh_cordis import Emit, ServiceKey\nS = ServiceKey("again")\n'
        'E = Emit("test/again", contained=False)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_keys")
    service, event = module.S, module.E
    (tmp_path / "reloaded_keys.py").write_text(
        'from dsh_cordis import Emit, ServiceKey\nS = ServiceKey("again")\n'
        'E = Emit("test/again", scoped=lambda _text: None, contained=True)\n'
    )
    monkeypatch.delitem(sys.modules, "reloaded_keys")
    importlib.invalidate_caches()
    again = importlib.import_module("reloaded_keys")
    assert again is not module
    assert again.S is service
    assert again.E is event
    assert event.contained
    assert event.scoped is not None
    monkeypatch.delitem(sys.modules, "reloaded_keys")


def test_naming_an_event_in_passing_leaves_its_owners_rules():
    assert Emit[str]("test/quiet") is QUIET
    assert QUIET.contained
    key = Emit[str]("test/ruled", scoped=lambda _text: None)
    Emit("test/ruled")
    assert key.scoped is not None
    Emit("test/ruled", scoped=None)
    assert key.scoped is None


def test_a_key_that_nobody_holds_is_forgotten():
    Emit("test/forgotten", contained=True)
    gc.collect()
    assert not Emit("test/forgotten").contained


async def test_listeners_run_in_order_the_latest_prepended_first(root: Context):
    heard: list[str] = []
    for name, prepend in (("a", False), ("b", True), ("c", False), ("d", True)):
        root.on(EMIT, lambda _text, n=name: heard.append(n), prepend=prepend)
    root.emit(EMIT, "x")
    assert heard == ["d", "b", "a", "c"]


async def test_raising_listener_stops_the_rest_and_reaches_the_emitter(root: Context):
    heard: list[str] = []
    root.on(EMIT, raising)
    root.on(EMIT, heard.append)
    with pytest.raises(ValueError, match="listener"):
        root.emit(EMIT, "x")
    assert heard == []


async def test_listeners_of_a_contained_event_are_independent(root: Context, caplog):
    heard: list[str] = []
    root.on(QUIET, raising)
    root.on(QUIET, heard.append)
    root.emit(QUIET, "x")
    assert heard == ["x"]
    assert "listener of test/quiet of 'root' failed" in caplog.text


@pytest.mark.parametrize("stop", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_plain_listener_can_neither_cancel_nor_exit(root: Context, caplog, stop):
    heard: list[str] = []

    def stopping(_text: str) -> None:
        raise stop

    root.on(QUIET, stopping)
    root.on(QUIET, heard.append)
    root.on(EMIT, stopping)
    root.emit(QUIET, "x")
    assert heard == ["x"]
    assert repr(stop) in caplog.text
    with pytest.raises(CordisError, match="test/emit") as caught:
        root.emit(EMIT, "x")
    assert caught.value.code == "LISTENER_STOPPED"


async def test_once_hears_one_dispatch_even_when_it_emits_again(root: Context):
    heard: list[str] = []

    def listener(text: str) -> None:
        heard.append(text)
        root.emit(EMIT, text + "!")

    root.on(EMIT, lambda text: root.emit(EMIT, "nested") if text == "x" else None)
    root.once(EMIT, listener)
    root.emit(EMIT, "x")
    assert heard == ["nested"]
    root.emit(EMIT, "y")
    assert heard == ["nested"]


async def test_listener_removed_during_a_dispatch_is_still_called_an_added_one_is_not(
    root: Context,
):
    heard: list[str] = []

    def first(_text: str) -> None:
        removed()
        root.on(EMIT, lambda _text: heard.append("added"))

    root.on(EMIT, first)
    removed = root.on(EMIT, lambda _text: heard.append("removed"))
    root.emit(EMIT, "x")
    assert heard == ["removed"]


async def test_asynchronous_listener_runs_in_a_task_of_its_own_fiber(root: Context):
    cancelled, started = [], asyncio.Event()

    async def listener(_text: str) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    fiber = await root.plugin(lambda ctx, _config: ctx.on(EMIT, listener))
    root.emit(EMIT, "x")
    assert not started.is_set()
    await started.wait()
    await fiber.dispose()
    assert cancelled == [True]


async def test_failing_asynchronous_listener_is_logged_with_its_owner(root: Context, caplog):
    await root.plugin(lambda ctx, _config: ctx.on(EMIT, araising), name="hearer")
    root.emit(EMIT, "x")
    while not caplog.records:
        await asyncio.sleep(0)
    assert caplog.records[0].fiber == "hearer"


async def test_asynchronous_listener_of_an_unloading_fiber_is_dropped(root: Context):
    ran: list[str] = []

    async def listener(text: str) -> None:
        ran.append(text)

    fiber = await root.plugin(lambda ctx, _config: ctx.on(EMIT, listener))
    end = fiber.dispose()
    root.emit(EMIT, "x")
    await end
    assert ran == []


async def test_parallel_runs_all_and_raises_one_group(root: Context):
    heard: list[str] = []

    async def slow(text: str) -> None:
        await asyncio.sleep(0)
        heard.append(text)

    root.on(PARALLEL, raising)
    root.on(PARALLEL, araising)
    root.on(PARALLEL, slow)
    with pytest.raises(ExceptionGroup) as caught:
        await root.parallel(PARALLEL, "x")
    assert len(caught.value.exceptions) == 2
    assert heard == ["x"]


async def test_parallel_listeners_overlap(root: Context):
    barrier = asyncio.Barrier(2)

    async def meet(_text: str) -> None:
        await barrier.wait()

    root.on(PARALLEL, meet)
    root.on(PARALLEL, meet)
    await root.parallel(PARALLEL, "x")


async def test_serial_stops_at_the_first_result_that_is_neither_none_nor_false(root: Context):
    called: list[object] = []

    def giving(value: object):
        async def listener(_text: str):
            called.append(value)
            return value

        return listener

    for value in (False, None, 0, 5):
        root.on(SERIAL, giving(value))
    assert await root.serial(SERIAL, "x") == 0
    assert called == [False, None, 0]


@pytest.mark.parametrize("value", [0, "", []])
async def test_empty_values_bail(root: Context, value: object):
    root.on(BAIL, lambda _text: None)
    root.on(BAIL, lambda _text: value)
    root.on(BAIL, lambda _text: 7)
    assert root.bail(BAIL, "x") == value


async def test_bail_without_an_answer_is_none(root: Context):
    root.on(BAIL, lambda _text: False)
    assert root.bail(BAIL, "x") is None


async def test_waterfall_wraps_and_short_circuits(root: Context):
    inner_calls: list[int] = []

    async def outer(_text: str, proceed) -> str:
        return (await proceed()).upper()

    async def replacing(text: str, _proceed) -> str:
        return f"instead of {text}"

    async def inner() -> str:
        inner_calls.append(1)
        return "inner"

    root.on(WATERFALL, outer)
    short = root.on(WATERFALL, replacing)
    assert await root.waterfall(WATERFALL, "x", inner=inner) == "INSTEAD OF X"
    assert inner_calls == []
    short()
    assert await root.waterfall(WATERFALL, "x", inner=inner) == "INNER"


async def test_waterfall_without_listeners_is_its_inner(root: Context):
    async def inner() -> str:
        return "inner"

    assert await root.waterfall(WATERFALL, "x", inner=inner) == "inner"


async def test_each_call_of_next_consumes_one_more_listener_then_reruns_inner(root: Context):
    calls: list[str] = []

    def twice(text: str, proceed) -> str:
        return proceed() + proceed()

    def second(_text: str, proceed) -> str:
        calls.append("second")
        return proceed()

    def inner() -> str:
        calls.append("inner")
        return "i"

    root.on(SYNC, twice)
    root.on(SYNC, second)
    assert root.waterfall_sync(SYNC, "x", inner=inner) == "ii"
    assert calls == ["second", "inner", "inner"]


async def test_raising_waterfall_listener_reaches_the_dispatcher(root: Context):
    async def outer(_text: str, _proceed) -> str:
        raise ValueError("outer")

    async def inner() -> str:
        return "inner"

    root.on(WATERFALL, outer)
    with pytest.raises(ValueError, match="outer"):
        await root.waterfall(WATERFALL, "x", inner=inner)


async def test_once_on_a_waterfall_steps_aside_after_its_call(root: Context):
    root.once(SYNC, lambda text, proceed: "once " + proceed())
    assert root.waterfall_sync(SYNC, "x", inner=lambda: "i") == "once i"
    assert root.waterfall_sync(SYNC, "x", inner=lambda: "i") == "i"


async def test_once_hears_one_of_two_overlapping_waterfalls_and_passes_the_other_on(root: Context):
    nested: list[str] = []

    def outer(text: str, proceed) -> str:
        if text == "first":
            nested.append(root.waterfall_sync(SYNC, "nested", inner=lambda: "inner"))
        return proceed()

    root.on(SYNC, outer)
    root.once(SYNC, lambda text, proceed: f"once {text} {proceed()}")
    assert root.waterfall_sync(SYNC, "first", inner=lambda: "inner") == "inner"
    assert nested == ["once nested inner"]


async def test_once_may_be_prepended_and_unscoped(root: Context):
    heard: list[str] = []
    root.on(EMIT, lambda _text: heard.append("plain"))
    root.once(EMIT, lambda _text: heard.append("once"), prepend=True, unscoped=True)
    root.emit(EMIT, "x")
    root.emit(EMIT, "y")
    assert heard == ["once", "plain", "plain"]
    root.once(EMIT, lambda _text: heard.append("far"), unscoped=True)
    root.emit(EMIT, "z", target=Friends())
    assert heard[-1] == "far"


async def test_once_that_is_removed_first_hears_nothing(root: Context):
    heard: list[str] = []
    root.once(EMIT, heard.append)()
    root.emit(EMIT, "x")
    assert heard == []


async def test_next_may_be_called_later(root: Context):
    kept = []

    def keeping(_text: str, proceed) -> str:
        kept.append(proceed)
        return "not yet"

    root.on(SYNC, keeping)
    root.on(SYNC, lambda text, proceed: f"{text} {proceed()}")
    assert root.waterfall_sync(SYNC, "x", inner=lambda: "inner") == "not yet"
    assert kept[0]() == "x inner"
    assert kept[0]() == "inner"


async def test_asynchronous_next_called_twice_consumes_another_listener_each_time(root: Context):
    async def twice(_text: str, proceed) -> str:
        return f"{await proceed()} {await proceed()} {await proceed()}"

    async def named(_text: str, _proceed) -> str:
        return "listener"

    async def inner() -> str:
        return "inner"

    root.on(WATERFALL, twice)
    root.on(WATERFALL, named)
    assert await root.waterfall(WATERFALL, "x", inner=inner) == "listener inner inner"


async def test_waterfall_listener_removed_during_a_dispatch_is_still_called_an_added_one_is_not(
    root: Context,
):
    def first(_text: str, proceed) -> str:
        second()
        root.on(SYNC, lambda _text, proceed: f"added {proceed()}")
        return proceed()

    root.on(SYNC, first)
    second = root.on(SYNC, lambda _text, proceed: f"removed {proceed()}")
    assert root.waterfall_sync(SYNC, "x", inner=lambda: "inner") == "removed inner"


async def test_waterfall_of_any_number_of_arguments_shares_them(root: Context):
    bare = SyncWaterfall[int]("test/bare")
    pair = SyncWaterfall[str, list[str], int]("test/pair")
    root.on(bare, lambda proceed: proceed() + 1)
    assert root.waterfall_sync(bare, inner=lambda: 1) == 2

    def adding(items: list[str], count: int, proceed) -> str:
        items.append("x" * count)
        return proceed()

    root.on(pair, adding)
    items = ["a"]
    assert root.waterfall_sync(pair, items, 2, inner=lambda: ",".join(items)) == "a,xx"


async def test_waterfall_leaves_nothing_for_the_collector(root: Context):
    root.on(SYNC, lambda _text, proceed: proceed())
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            root.waterfall_sync(SYNC, "x", inner=lambda: "i")
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_scoped_waterfall_reaches_the_admitted_listeners_only(root: Context):
    root.on(SYNC, lambda _text, proceed: f"plain {proceed()}")
    root.extend(friend=True).on(SYNC, lambda _text, proceed: f"friend {proceed()}")
    answer = root.waterfall_sync(SYNC, "x", inner=lambda: "inner", target=Friends())
    assert answer == "friend inner"


async def test_asking_who_would_hear_tells_no_observer(root: Context):
    told: list[object] = []
    root.on(Internal.DISPATCH, lambda *args: told.append(args))
    assert not root.reaches(EMIT, "x")
    root.on(EMIT, lambda _text: None)
    assert root.reaches(EMIT, "x")
    assert not root.reaches(EMIT, "x", target=Friends())
    assert told == []


class Friends:
    """Admits contexts that carry the attribute `friend`."""

    def __init__(self) -> None:
        self.asked = 0

    def accepts(self, ctx: Context) -> bool:
        self.asked += 1
        return ctx.meta("friend") is True


async def test_rejecting_target_leaves_unscoped_listeners_only(root: Context):
    heard: list[str] = []
    root.on(EMIT, lambda _text: heard.append("plain"))
    root.on(EMIT, lambda _text: heard.append("unscoped"), unscoped=True)
    root.extend(friend=True).on(EMIT, lambda _text: heard.append("friend"))
    root.emit(EMIT, "x", target=Friends())
    assert heard == ["unscoped", "friend"]


async def test_keys_own_rule_scopes_a_dispatch_and_an_explicit_target_overrides_it(root: Context):
    scoped = Emit[str]("test/scoped", scoped=lambda text: Friends() if text == "f" else None)
    heard: list[str] = []
    root.on(scoped, heard.append)
    root.emit(scoped, "f")
    root.emit(scoped, "everyone")
    root.emit(scoped, "everyone", target=Friends())
    assert heard == ["everyone"]


async def test_stable_target_is_asked_once_until_its_token_or_the_listeners_change(root: Context):
    target = Friends()
    target.stable = object()
    root.on(EMIT, lambda _text: None)
    root.emit(EMIT, "x", target=target)
    root.emit(EMIT, "x", target=target)
    assert target.asked == 1
    target.stable = object()
    root.emit(EMIT, "x", target=target)
    assert target.asked == 2
    root.on(EMIT, lambda _text: None)
    root.emit(EMIT, "x", target=target)
    assert target.asked == 4


async def test_raising_dispatch_observer_blocks_the_event(root: Context):
    heard: list[str] = []

    def observe(_mode, _name, _args, _target) -> None:
        raise PermissionError("blocked")

    root.on(EMIT, heard.append)
    observing = root.on(Internal.DISPATCH, observe)
    with pytest.raises(PermissionError):
        root.emit(EMIT, "x")
    observing()
    root.emit(EMIT, "y")
    assert heard == ["y"]


async def test_dispatch_observer_is_told_mode_name_arguments_and_target(root: Context):
    told: list[object] = []
    target = Friends()
    root.on(Internal.DISPATCH, lambda *args: told.append(args))
    await root.parallel(PARALLEL, "p")
    root.bail(BAIL, "b", target=target)
    root.waterfall_sync(SYNC, "s", inner=lambda: "")
    assert told == [
        ("emit", "test/parallel", ("p",), None),
        ("bail", "test/bail", ("b",), target),
        ("waterfall", "test/sync-waterfall", ("s",), None),
    ]


async def test_dispatch_observer_is_told_the_target_that_the_keys_own_rule_gives(root: Context):
    own, given = Friends(), Friends()
    scoped = Emit[str]("test/scoped-observed", scoped=lambda _: own)
    told: list[object] = []
    root.on(Internal.DISPATCH, lambda _mode, _name, _args, target: told.append(target))
    root.emit(scoped, "x")
    root.emit(scoped, "x", target=given)
    assert told == [own, given]


async def test_listener_observer_may_replace_a_registration(root: Context):
    heard, taken, undone = [], [], []

    def replace(event, listener, _prepend):
        if event == EMIT:
            taken.append(listener)
            return lambda: undone.append(True)
        return None

    root.on(Internal.LISTENER, replace)
    listening = root.on(EMIT, heard.append)
    root.emit(EMIT, "x")
    listening()
    assert (heard, taken, undone) == ([], [heard.append], [True])


async def test_one_event_has_one_mode(root: Context):
    root.on(EMIT, lambda _text: None)
    with pytest.raises(CordisError) as caught:
        root.on(Parallel[str]("test/emit"), lambda _text: None)
    assert caught.value.code == "EVENT_MODE"


async def test_listening_on_a_disposed_fiber_is_refused(root: Context):
    fiber = await root.plugin(lambda _ctx, _config: None)
    await fiber.dispose()
    with pytest.raises(CordisError) as caught:
        fiber.ctx.on(EMIT, lambda _text: None)
    assert caught.value.code == "INACTIVE_EFFECT"


async def test_listeners_end_with_their_plugin(root: Context):
    heard: list[str] = []
    fiber = await root.plugin(lambda ctx, _config: ctx.on(EMIT, heard.append))
    root.emit(EMIT, "x")
    await fiber.dispose()
    root.emit(EMIT, "y")
    assert heard == ["x"]
