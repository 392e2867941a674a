"""Any sequence of row lists leaves exactly what the last good one says."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import pytest
from dsh_cordis import Context, FiberState, ServiceKey
from dsh_cordis_include import register_builtins
from dsh_cordis_loader import (
    LOADER,
    EntryPoints,
    Loader,
    LoaderError,
    LoaderOptions,
    Row,
    parse_rows,
    row_fields,
    walk_rows,
)
from hypothesis import given, settings
from hypothesis import strategies as st

SERVICE = ServiceKey[object]("svc")


class Plugins:
    """Plugins that count who is up, by row id and configuration."""

    def __init__(self) -> None:
        self.up: Counter[tuple[str, object]] = Counter()

    def note(self, ctx: Context, config: object) -> object:
        key = (ctx.fiber.name, config)
        self.up[key] += 1

        def down() -> None:
            self.up[key] -= 1

        return down

    def provider(self, ctx: Context, config: object) -> object:
        ctx.provide(SERVICE, config)
        return self.note(ctx, config)

    def broken(self, ctx: Context, config: object) -> object:
        ctx.effect(lambda: self.note(ctx, config))
        raise ValueError("boom")


def plain_row(row_id: str) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {
            "id": st.just(row_id),
            "name": st.sampled_from(["cordis:note"] * 6 + ["cordis:broken", "no-such-plugin"]),
        },
        optional={
            "config": st.integers(0, 2),
            "disabled": st.booleans(),
            "inject": st.just(["svc"]),
        },
    )


def some_of(*rows: st.SearchStrategy[dict[str, object]]) -> st.SearchStrategy[list[object]]:
    chosen = [st.one_of(st.none(), row) for row in rows]
    return st.tuples(*chosen).map(lambda found: [row for row in found if row is not None])


PROVIDER = st.fixed_dictionaries(
    {"id": st.just("p"), "name": st.just("cordis:provider"), "config": st.integers(0, 2)}
)
GROUP = st.fixed_dictionaries(
    {
        "id": st.just("g"),
        "name": st.just("cordis:group"),
        "group": st.just(True),
        "config": some_of(plain_row("x"), plain_row("y")),
    },
    optional={"disabled": st.booleans(), "inject": st.just(["svc"])},
)
LISTS = some_of(plain_row("a"), plain_row("b"), PROVIDER, GROUP)


def expected(rows: Sequence[Row], *, provided: bool) -> Counter[tuple[str, object]]:
    """Who should be up for these rows."""
    up: Counter[tuple[str, object]] = Counter()
    for row in rows:
        if row.disabled or (row.inject and not provided):
            continue
        if row.children is not None:
            up += expected(row.children, provided=provided)
        else:
            up[row.id, row.config] += 1
    return up


def check(loader: Loader, plugins: Plugins, rows: Sequence[Row]) -> None:
    provided = any(row.id == "p" for row in rows)
    assert +plugins.up == expected(rows, provided=provided)
    assert [row_fields(e.row) for e in loader.entries() if e.id in {r.id for r in rows}] == [
        row_fields(row) for row in rows
    ]
    for entry in loader.entries():
        if entry.fiber is not None:
            assert entry.fiber.state in (FiberState.ACTIVE, FiberState.PENDING)


async def play(lists: list[list[object]]) -> None:
    plugins, current = Plugins(), ()
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(entry_points=EntryPoints({})))
        loader = root.get(LOADER)
        assert loader is not None
        register_builtins(loader)
        for name in ("note", "provider", "broken"):
            loader.builtin(name, getattr(plugins, name))
        for values in lists:
            rows = parse_rows(values, where="r", base=None, origin="")
            try:
                await loader.apply(rows)
            except LoaderError as error:
                assert error.code in ("APPLY_FAILED", "UNKNOWN_PLUGIN")
                faulty = {"cordis:broken", "no-such-plugin"}
                assert faulty & {row.name for row in walk_rows(rows)}
            else:
                current = rows
            check(loader, plugins, current)
    assert +plugins.up == Counter()


@pytest.fixture(autouse=True)
def _quiet_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")


@settings(max_examples=150, deadline=None)
@given(st.lists(LISTS, min_size=1, max_size=5))
def test_any_sequence_of_lists_leaves_what_the_last_good_one_says(lists: list[list[object]]):
    asyncio.run(play(lists))


async def there_and_back(first: list[object], second: list[object]) -> None:
    plugins = Plugins()
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(entry_points=EntryPoints({})))
        loader = root.get(LOADER)
        assert loader is not None
        register_builtins(loader)
        for name in ("note", "provider", "broken"):
            loader.builtin(name, getattr(plugins, name))
        current: tuple[Row, ...] = ()
        for values in (first, second, first):
            rows = parse_rows(values, where="r", base=None, origin="")
            before = fibers(loader)
            old = {row.id: row for row in walk_rows(current)}
            outcome = rows
            try:
                await loader.apply(rows)
            except LoaderError:
                outcome = current
            # Also when it failed: what no list wanted otherwise was not touched.
            for row in walk_rows(rows):
                if stays(row, old, rows) and row.id in before:
                    assert fibers(loader)[row.id] is before[row.id]
            current = outcome
            check(loader, plugins, current)


def fibers(loader: Loader) -> dict[str, object]:
    return {entry.id: entry.fiber for entry in loader.entries() if entry.fiber is not None}


def stays(row: Row, old: dict[str, Row], rows: Sequence[Row]) -> bool:
    """Whether neither the row nor the group around it changed, so that it just goes on."""
    known = old.get(row.id)
    if known is None or (row.children is None and known != row):
        return False
    fields = ("name", "inject", "disabled")
    if any(getattr(known, field) != getattr(row, field) for field in fields):
        return False
    owners = [one for one in rows if one.children and row in one.children]
    return all(stays(owner, old, rows) for owner in owners)


@settings(max_examples=150, deadline=None)
@given(LISTS, LISTS)
def test_there_and_back_the_tree_is_one_of_the_two_and_what_stays_goes_on(
    first: list[object], second: list[object]
):
    asyncio.run(there_and_back(first, second))


async def start(values: list[object]) -> None:
    plugins = Plugins()
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(entry_points=EntryPoints({})))
        loader = root.get(LOADER)
        assert loader is not None
        register_builtins(loader)
        for name in ("note", "provider", "broken"):
            loader.builtin(name, getattr(plugins, name))
        rows = parse_rows(values, where="r", base=None, origin="")
        failures = await loader.start_rows(rows)
        faulty = {"cordis:broken": "apply", "no-such-plugin": "import"}
        provided = any(row.id == "p" for row in rows)
        for failure in failures:
            waits = "wait" if failure.row.inject and not provided else None
            assert failure.kind in (faulty.get(failure.row.name), waits)
        failed = {one.entry_id for one in failures if one.kind != "wait"}
        good = expected(rows, provided=provided)
        assert +plugins.up == Counter({k: n for k, n in good.items() if k[0] not in failed})
        # Once more without what failed: nothing that runs is touched.
        before = fibers(loader)
        wanted = [row for row in rows if row.id not in failed]
        again = await loader.start_rows(wanted)
        assert {one.kind for one in again} <= {"wait", "apply", "import"}
        assert {k: v for k, v in fibers(loader).items() if k in before} == before


@settings(max_examples=150, deadline=None)
@given(LISTS)
def test_a_tolerant_start_runs_exactly_what_can_run(values: list[object]):
    asyncio.run(start(values))
