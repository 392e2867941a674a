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
