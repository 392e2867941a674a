"""A start that goes on past what fails."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from dsh_cordis import Context, FiberState
from dsh_cordis_loader import CONFIG_UPDATE, LOADER, Loader, Row, RowFailure

pytestmark = pytest.mark.anyio
Rows = Callable[[str], tuple[Row, ...]]


@pytest.fixture(autouse=True)
def _quiet_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")


def states(loader: Loader) -> dict[str, str | None]:
    return {e.id: e.fiber.state.name if e.fiber else None for e in loader.entries()}


def kinds(failures: tuple[RowFailure, ...]) -> dict[str, str]:
    return {failure.entry_id: failure.kind for failure in failures}


async def test_what_fails_stays_unmounted_and_the_rest_runs(
    loader: Loader, rows: Rows, journal: list[object]
):
    failures = await loader.start_rows(
        rows("""
            - {id: a, name: "@note", config: a}
            - {id: lost, name: "no-such-plugin"}
            - {id: bad, name: "@broken"}
            - {id: odd, name: "@note", disabled: !expr nope}
            - {id: z, name: "@note", config: z}
        """)
    )
    assert kinds(failures) == {"lost": "import", "bad": "apply", "odd": "apply"}
    assert states(loader) == {"a": "ACTIVE", "lost": None, "bad": None, "odd": None, "z": "ACTIVE"}
    bad = next(one for one in failures if one.entry_id == "bad")
    assert isinstance(bad.error, ValueError)
    assert bad.message.startswith("failed to apply loader entry bad (")
    assert bad.row.id == "bad"
    await loader.settled()


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.exit(3)",
        "import asyncio; raise asyncio.CancelledError",
        "raise GeneratorExit",
        "raise type('Panic', (BaseException,), {})('in an extension')",
        "raise BaseExceptionGroup('several', [SystemExit(3)])",
        "raise KeyboardInterrupt",
    ],
)
async def test_a_module_that_raises_anything_at_all_fails_its_row_only(
    loader: Loader, rows: Rows, tmp_path: Path, source: str
):
    (tmp_path / "odd.py").write_text(source)
    before = signal.signal(signal.SIGINT, lambda *_: None)  # a program that handles Ctrl+C
    try:
        failures = await loader.start_rows(
            rows(f"[{{id: odd, name: '{tmp_path}/odd.py'}}, {{id: n, name: '@note'}}]")
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert kinds(failures) == {"odd": "import"}
    assert states(loader) == {"odd": None, "n": "ACTIVE"}


async def test_a_row_that_waits_for_a_failing_one_is_pending_and_says_what_it_lacks(
    loader: Loader, rows: Rows
):
    failures = await loader.start_rows(rows("[{id: c, name: '@note_p'}, {id: n, name: '@note'}]"))
    assert [(f.entry_id, f.kind, f.missing) for f in failures] == [("c", "wait", ("p",))]
    assert "is pending (waiting for service: p)" in failures[0].message
    assert states(loader) == {"c": "PENDING", "n": "ACTIVE"}


async def test_a_body_that_never_returns_is_given_up_and_the_rest_runs(
    loader: Loader, rows: Rows, journal: list[object]
):
    forever = asyncio.Event()
    seen: list[tuple[str, ...]] = []

    async def hang(ctx: Context, config: object) -> None:
        seen.append(loader.starting)
        await forever.wait()

    loader.builtin("hang", hang)
    failures = await loader.start_rows(
        rows("[{id: h, name: 'cordis:hang'}, {id: a, name: '@note'}]"), activation_timeout_ms=50
    )
    assert kinds(failures) == {"h": "timeout"}
    assert "h (cordis:hang) was not active after 50 ms" in failures[0].message
    assert states(loader) == {"h": None, "a": "ACTIVE"}
    assert seen == [("h",)]
    forever.set()


async def test_a_second_start_changes_what_differs_and_keeps_the_rest(
    loader: Loader, rows: Rows, journal: list[object]
):
    await loader.start_rows(
        rows(
            "[{id: a, name: '@note', config: 1}, {id: b, name: '@broken'}, {id: c, name: '@note'}]"
        )
    )
    fiber = loader.entries()[0].fiber
    failures = await loader.start_rows(
        rows("[{id: a, name: '@note', config: 1}, {id: b, name: '@note', config: 2}]")
    )
    assert failures == ()
    assert loader.entries()[0].fiber is fiber
    assert journal == [("up", 1), ("up", None), ("down", None), ("up", 2)]


async def test_an_id_that_is_taken_fails_alone(loader: Loader, rows: Rows, journal: list[object]):
    failures = await loader.start_rows(
        rows("[{id: a, name: '@note', config: 1}, {id: a, name: '@note', config: 2}]")
    )
    assert [(f.entry_id, f.kind, f.row.config) for f in failures] == [("a", "apply", 2)]
    assert journal == [("up", 1)]


async def test_a_start_ends_quietly_when_the_tree_does(loader: Loader, rows: Rows):
    root = loader.own.root

    def quit_all(ctx: Context, config: object) -> None:
        root.fiber.dispose()

    loader.builtin("quit", quit_all)
    assert await loader.start_rows(rows("[{id: q, name: 'cordis:quit'}]")) == ()
    await root.fiber.dispose()
    assert root.get(LOADER) is None


async def test_another_thread_sees_which_row_holds_up_the_loop(loader: Loader, rows: Rows):
    seen: list[tuple[str, ...]] = []

    def block(ctx: Context, config: object) -> None:
        watcher = threading.Thread(target=lambda: seen.append(loader.starting))
        watcher.start()
        watcher.join()

    async def wait(ctx: Context, config: object) -> None:
        await asyncio.sleep(0)

    loader.builtin("block", block)
    loader.builtin("wait", wait)
    await loader.start_rows(rows("[{id: w, name: 'cordis:wait'}, {id: b, name: 'cordis:block'}]"))
    assert seen == [("b", "w")]
    assert loader.starting == ()


async def test_a_row_can_wait_until_all_others_are_at_rest(
    loader: Loader, rows: Rows, journal: list[object]
):
    text = """
        - {id: last, name: "@note", config: last, intercept: {loader: {await: true}}}
        - {id: s, name: "@slowly", config: s}
        - {id: c, name: "@note_p"}
    """
    await loader.start_rows(rows(text))
    assert journal == [("begin", "s"), ("up", "s"), ("up", "last")]
    assert states(loader) == {"last": "ACTIVE", "s": "ACTIVE", "c": "PENDING"}
    await loader.apply(())
    await loader.apply(rows(text))
    assert journal[-3:] == [("begin", "s"), ("up", "s"), ("up", "last")]


async def test_a_plugin_can_ask_to_start_last(loader: Loader, rows: Rows, journal: list[object]):
    class Late:
        inject: ClassVar = {LOADER: {"await": True}}

        def apply(self, ctx: Context, config: object) -> None:
            journal.append("late")

    loader.builtin("late", Late())
    await loader.apply(rows("[{id: l, name: 'cordis:late'}, {id: s, name: '@slowly', config: s}]"))
    assert journal == [("begin", "s"), ("up", "s"), "late"]


async def test_a_held_row_that_fails_undoes_the_change(loader: Loader, rows: Rows):
    text = "[{id: l, name: '@broken', intercept: {loader: {await: true}}}]"
    with pytest.raises(Exception, match="failed to apply loader entry l"):
        await loader.apply(rows(text))
    assert loader.entries() == ()


async def test_a_change_that_succeeded_is_announced(loader: Loader, rows: Rows):
    heard: list[str] = []
    loader.own.root.on(CONFIG_UPDATE, lambda: heard.append("update"))
    await loader.start_rows(rows("[{id: n, name: '@note'}]"))
    with pytest.raises(Exception, match="boom"):
        await loader.apply(rows("[{id: b, name: '@broken'}]"))
    await loader.apply(())
    assert heard == ["update", "update"]


async def test_the_body_of_a_plugin_may_not_wait_for_the_tree(loader: Loader, rows: Rows):
    class Waits:
        inject = (LOADER,)

        async def apply(self, ctx: Context, config: object) -> None:
            await ctx[LOADER].apply(())

    loader.builtin("waits", Waits())
    (failure,) = await loader.start_rows(rows("[{id: w, name: 'cordis:waits'}]"))
    assert getattr(failure.error, "code", None) == "SELF_WAIT"


async def test_inject_of_a_row_reaches_every_fiber_below(
    loader: Loader, rows: Rows, journal: list[object]
):
    def child(ctx: Context, config: object) -> None:
        journal.append(sorted(ctx.fiber.inject))

    def parent(ctx: Context, config: object) -> None:
        ctx.plugin(child)

    loader.builtin("parent", parent)
    await loader.apply(
        rows("[{id: x, name: 'cordis:parent', inject: [p]}, {id: p, name: '@Provider'}]")
    )
    await loader.settled()
    assert journal == [["p"]]
    fiber = loader.resolve("x").fiber
    assert fiber is not None
    assert fiber.state is FiberState.ACTIVE


async def test_a_service_that_a_row_isolates_is_private_to_it(loader: Loader, rows: Rows):
    await loader.apply(
        rows("""
            - {id: i, name: "@Provider", config: {value: inner}, isolate: {p: true}}
            - {id: o, name: "@Provider", config: {value: outer}}
            - {id: c, name: "@note_p", isolate: {p: true}}
        """)
    )
    assert states(loader) == {"i": "ACTIVE", "o": "ACTIVE", "c": "PENDING"}


async def test_rows_with_one_label_share_an_isolated_service(
    loader: Loader, rows: Rows, journal: list[object]
):
    text = """
        - {id: i, name: "@Provider", config: {value: inner}, isolate: {p: world}}
        - {id: c, name: "@note_p", isolate: {p: %s}, config: {v: !expr ctx.p.value}}
    """
    await loader.apply(rows(text % "world"))
    assert journal == [("up", {"v": "inner"})]
    await loader.apply(rows(text % "other"))
    assert states(loader) == {"i": "ACTIVE", "c": "PENDING"}
    await loader.apply(rows(text % "world"))
    assert states(loader) == {"i": "ACTIVE", "c": "ACTIVE"}


async def test_settings_of_a_row_reach_what_runs_below_it(
    loader: Loader, rows: Rows, journal: list[object]
):
    def settings(ctx: Context, config: object) -> None:
        journal.append(dict(ctx.interception(LOADER)))

    loader.builtin("settings", settings)
    await loader.apply(rows("[{id: a, name: 'cordis:settings', intercept: {loader: {x: 1}}}]"))
    await loader.apply(rows("[{id: a, name: 'cordis:settings', intercept: {loader: {x: 2}}}]"))
    assert journal == [{"x": 1}, {"x": 2}]
