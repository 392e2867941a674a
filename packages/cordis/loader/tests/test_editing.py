"""Changes of single rows, asked for or made by plugins, and where they are stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from dsh_cordis import ConfigError, Context, FiberState, Internal, ServiceKey
from dsh_cordis_loader import (
    ENTRY_INIT,
    LOADER,
    PARTIAL_DISPOSE,
    PATCH_CONTEXT,
    Entry,
    Loader,
    LoaderError,
    Row,
    RowChange,
)

pytestmark = pytest.mark.anyio
Rows = Callable[[str], tuple[Row, ...]]


class Store:
    """Remembers what it was told to write."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.changes: list[RowChange] = []
        self.failure = failure
        self.saved = asyncio.Event()

    async def save(self, change: RowChange) -> None:
        self.changes.append(change)
        self.saved.set()
        if self.failure is not None:
            raise self.failure

    @property
    def brief(self) -> list[tuple[object, ...]]:
        return [(c.kind, c.row_id, dict(c.fields), c.parent) for c in self.changes]


@pytest.fixture(autouse=True)
def _quiet_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")


@pytest.fixture
def store(loader: Loader) -> Store:
    store = Store()
    loader.store_with(store)
    return store


@pytest.fixture
def note(plugins: str) -> str:
    return f"{plugins}:note"


def order(loader: Loader) -> list[str]:
    return [entry.id for entry in loader.entries()]


async def test_a_created_row_runs_and_is_stored(
    loader: Loader, store: Store, note: str, journal: list[object]
):
    entry = await loader.create({"id": "a", "name": note, "config": 1})
    assert journal == [("up", 1)]
    assert entry is loader.resolve("a")
    assert entry.module is not None
    assert entry.module.endswith("_plugins")
    assert store.brief == [("create", "a", {"id": "a", "name": note, "config": 1}, None)]


async def test_a_created_row_stands_where_it_was_asked_to(loader: Loader, note: str):
    await loader.create({"id": "a", "name": note})
    await loader.create({"id": "b", "name": note}, position=0)
    made = await loader.create({"name": note})
    assert order(loader) == ["b", "a", made.id]


async def test_a_row_that_cannot_run_is_neither_kept_nor_stored(
    loader: Loader, store: Store, plugins: str, note: str
):
    await loader.create({"id": "a", "name": note})
    with pytest.raises(LoaderError, match="failed to apply loader entry b"):
        await loader.create({"id": "b", "name": f"{plugins}:broken"})
    with pytest.raises(LoaderError, match="duplicate loader entry id: a"):
        await loader.create({"id": "a", "name": note})
    with pytest.raises(LoaderError, match="did you mean `config`"):
        await loader.create({"id": "c", "name": note, "confg": 1})
    assert order(loader) == ["a"]
    assert [change.row_id for change in store.changes] == ["a"]


async def test_an_update_replaces_fields_and_none_takes_one_away(
    loader: Loader, store: Store, note: str, journal: list[object]
):
    await loader.create({"id": "a", "name": note, "config": 1})
    await loader.update("a", {"config": 2})
    await loader.update("a", {"config": None})
    assert journal == [("up", 1), ("down", 1), ("up", 2), ("down", 2), ("up", None)]
    await loader.update("a", {"disabled": True})
    assert loader.resolve("a").fiber is None
    assert [change[2] for change in store.brief[1:]] == [
        {"config": 2},
        {"config": None},
        {"disabled": True},
    ]


async def test_an_update_that_fails_leaves_the_old_row_running_and_stores_nothing(
    loader: Loader, store: Store, plugins: str, journal: list[object]
):
    await loader.create({"id": "s", "name": f"{plugins}:sometimes", "config": {"n": 1}})
    with pytest.raises(LoaderError, match="boom"):
        await loader.update("s", {"config": {"fail": True}})
    with pytest.raises(LoaderError, match="`id` cannot change"):
        await loader.update("s", {"id": "t"})
    assert loader.resolve("s").row.config == {"n": 1}
    assert journal[-1] == ("up", {"n": 1})
    assert len(store.changes) == 1


async def test_a_waiting_row_is_not_given_configuration_that_does_not_validate(
    loader: Loader, store: Store
):
    class Config(msgspec.Struct):
        size: int = 0

    class Waits:
        inject = (ServiceKey[Any]("never"),)

        def apply(self, ctx: Context, config: object) -> None: ...

    Waits.Config = Config  # pyright: ignore[reportAttributeAccessIssue]
    loader.builtin("waits", Waits())
    await loader.create({"id": "w", "name": "cordis:waits", "config": {"size": 1}})
    with pytest.raises(ConfigError):
        await loader.update("w", {"config": {"size": "big"}})
    assert loader.resolve("w").row.config == {"size": 1}
    assert len(store.changes) == 1


async def test_a_removed_row_ends_and_is_stored_as_removed(
    loader: Loader, store: Store, note: str, journal: list[object]
):
    await loader.create({"id": "a", "name": note})
    await loader.remove("a")
    assert loader.entries() == ()
    assert journal == [("up", None), ("down", None)]
    assert store.brief[-1] == ("remove", "a", {}, None)


async def test_an_unknown_entry_suggests_near_ones(loader: Loader, note: str):
    await loader.create({"id": "tools", "name": note})
    with pytest.raises(LoaderError, match="no loader entry 'tols'; did you mean 'tools'") as caught:
        await loader.remove("tols")
    assert caught.value.code == "UNKNOWN_ENTRY"


async def test_a_store_that_fails_is_told_and_the_row_runs_on(
    loader: Loader, note: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.ERROR, "dsh.cordis.loader")
    loader.store_with(Store(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        await loader.create({"id": "a", "name": note})
    assert loader.resolve("a").fiber is not None
    assert "create of loader entry a runs but could not be stored: disk full" in caplog.text


async def test_a_plugin_that_disposes_its_own_row_is_stored_as_disabled(
    loader: Loader, store: Store
):
    def quits(ctx: Context, config: object) -> None:
        ctx.on(Internal.SERVICE, lambda name, value: None)

    loader.builtin("quits", quits)
    entry = await loader.create({"id": "q", "name": "cordis:quits"})
    store.saved.clear()
    assert entry.fiber is not None
    await entry.fiber.dispose()
    await store.saved.wait()
    assert store.brief[-1] == ("update", "q", {"disabled": True}, None)
    assert entry.fiber is None
    assert entry.row.disabled is True


async def test_disposal_by_the_loader_a_failure_or_the_end_of_the_tree_stores_nothing(
    loader: Loader, store: Store, rows: Rows, plugins: str
):
    await loader.apply(rows("[{id: a, name: '@note'}, {id: b, name: '@note'}]"))
    await loader.apply(rows("[{id: a, name: '@note', config: 2}]"))
    with pytest.raises(LoaderError):
        await loader.apply(rows("[{id: a, name: '@broken'}]"))
    await loader.start_rows(rows("[{id: a, name: '@note'}, {id: c, name: '@broken'}]"))
    await loader.own.root.fiber.dispose()
    assert store.changes == []


async def test_a_direct_update_of_a_rows_fiber_is_stored_once_it_runs(
    loader: Loader, store: Store, plugins: str
):
    entry = await loader.create({"id": "s", "name": f"{plugins}:sometimes", "config": {"n": 1}})
    store.saved.clear()
    assert entry.fiber is not None
    await entry.fiber.update({"n": 2})
    await store.saved.wait()
    assert store.brief[-1] == ("update", "s", {"config": {"n": 2}}, None)
    assert entry.row.config == {"n": 2}
    with pytest.raises(ValueError, match="boom"):
        await entry.fiber.update({"fail": True})
    await anyio.wait_all_tasks_blocked()
    assert entry.row.config == {"n": 2}
    assert len(store.changes) == 2


async def test_a_direct_update_that_does_not_validate_is_never_stored(loader: Loader, store: Store):
    class Config(msgspec.Struct):
        size: int = 0
        name: str = "x"

    def sized(ctx: Context, config: object) -> None: ...

    sized.Config = Config  # pyright: ignore[reportFunctionMemberAccess]
    loader.builtin("sized", sized)
    entry = await loader.create({"id": "s", "name": "cordis:sized"})
    assert entry.fiber is not None
    with pytest.raises(ConfigError):
        await entry.fiber.update({"size": "big"})
    assert entry.fiber.state is FiberState.ACTIVE
    store.saved.clear()
    await entry.fiber.update(Config(size=3))
    await store.saved.wait()
    assert store.brief[1:] == [("update", "s", {"config": {"size": 3}}, None)]


async def test_what_is_to_be_stored_is_stored_before_the_tree_ends(loader: Loader, note: str):
    gate, written = asyncio.Event(), list[str]()

    class Slow:
        async def save(self, change: RowChange) -> None:
            await gate.wait()
            written.append(change.row_id)

    loader.own.root.effect(lambda: None)
    entry = await loader.create({"id": "a", "name": note})
    loader.store_with(Slow())
    assert entry.fiber is not None
    await entry.fiber.dispose()
    ending = loader.own.root.fiber.dispose()
    gate.set()
    await ending
    assert written == ["a"]


async def test_a_plugin_may_remove_its_own_row_from_a_task(
    loader: Loader, store: Store, journal: list[object]
):
    removed = asyncio.Event()

    class Leaves:
        inject = (LOADER,)

        def apply(self, ctx: Context, config: object) -> object:
            loader = ctx[LOADER]
            ctx.spawn(loader.remove, "l")
            return removed.set

    loader.builtin("leaves", Leaves())
    await loader.create({"id": "l", "name": "cordis:leaves"})
    await removed.wait()
    await loader.settled()
    assert loader.entries() == ()
    assert [change[0] for change in store.brief] == ["create", "remove"]


async def test_locate_finds_the_row_around_any_fiber(loader: Loader, note: str):
    found: list[Entry | None] = []

    def child(ctx: Context, config: object) -> None:
        found.append(loader.locate(ctx.fiber))

    loader.builtin("parent", lambda ctx, config: ctx.plugin(child) and None)
    entry = await loader.create({"id": "p", "name": "cordis:parent"})
    await anyio.wait_all_tasks_blocked()
    assert found == [entry]
    assert loader.locate(loader.own.root.fiber) is None


async def test_replaced_plugins_start_after_the_old_ones_are_cleaned_up(
    loader: Loader, note: str, journal: list[object]
):
    await loader.create({"id": "a", "name": note, "config": 1})

    def new(ctx: Context, config: object) -> None:
        journal.append(("new", config))

    await loader.replace({loader.resolve("a"): new})
    assert journal == [("up", 1), ("down", 1), ("new", 1)]
    assert loader.resolve("a").plugin is new


async def test_a_replacement_that_fails_restores_every_old_plugin(
    loader: Loader, rows: Rows, plugins: str, journal: list[object]
):
    await loader.apply(rows("[{id: a, name: '@note', config: 1}, {id: b, name: '@note'}]"))
    old = loader.resolve("a").plugin
    with pytest.raises(LoaderError, match="loader entry b"):
        await loader.replace(
            {
                loader.resolve("a"): lambda ctx, config: None,
                loader.resolve("b"): loader.load(f"{plugins}:broken"),
            }
        )
    assert [loader.resolve(one).plugin for one in "ab"] == [old, old]
    assert sorted(map(str, journal[-2:])) == ["('up', 1)", "('up', None)"]


async def test_entries_and_their_ends_are_announced(loader: Loader, rows: Rows):
    heard: list[tuple[object, ...]] = []
    root = loader.own.root
    root.on(ENTRY_INIT, lambda entry: heard.append(("init", entry.id)))
    root.on(PARTIAL_DISPOSE, lambda entry, old, again: heard.append((entry.id, old.config, again)))
    await loader.apply(rows("[{id: a, name: '@note', config: 1}]"))
    await loader.apply(rows("[{id: a, name: '@note', config: 1, inject: [journal]}]"))
    await loader.apply(())
    assert heard == [("init", "a"), ("a", 1, True), ("a", 1, False)]


async def test_the_context_of_a_row_can_be_patched(
    loader: Loader, rows: Rows, journal: list[object]
):
    loader.builtin("meta", lambda ctx, config: journal.append(ctx.meta("extra")))
    loader.own.root.on(PATCH_CONTEXT, lambda entry, ctx, next: next().extend(extra=entry.id))
    await loader.apply(rows("[{id: a, name: 'cordis:meta'}]"))
    assert journal == ["a"]


async def test_a_cancelled_caller_does_not_cut_a_change_short(
    loader: Loader, rows: Rows, journal: list[object]
):
    async with anyio.create_task_group() as group:
        group.start_soon(loader.apply, rows("[{id: a, name: '@slowly', config: 1}]"))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    await loader.settled()
    assert journal == [("begin", 1), ("up", 1)]


async def test_configuration_errors_name_the_layer_that_set_it(loader: Loader):
    class Config(msgspec.Struct):
        size: int = 0

    def sized(ctx: Context, config: object) -> None: ...

    sized.Config = Config  # pyright: ignore[reportFunctionMemberAccess]
    loader.builtin("sized", sized)
    row = Row(id="s", name="cordis:sized", config={"size": "x"}, origin="dsh-base")
    with pytest.raises(LoaderError, match=r"\(set by dsh-base\)$"):
        await loader.apply([row])
    patched = msgspec.structs.replace(row, config_from="/home/cordis.patch.yml")
    with pytest.raises(LoaderError, match=r"\(set by /home/cordis.patch.yml\)$"):
        await loader.apply([patched])


async def test_a_plugin_may_end_itself_while_it_starts(
    loader: Loader, store: Store, rows: Rows, journal: list[object]
):
    def once(ctx: Context, config: object) -> object:
        ctx.fiber.dispose()
        return lambda: journal.append("undone")

    loader.builtin("once", once)
    text = "[{id: o, name: 'cordis:once'}, {id: n, name: '@note'}]"
    assert await loader.start_rows(rows(text)) == ()
    await store.saved.wait()
    assert store.brief == [("update", "o", {"disabled": True}, None)]
    assert loader.resolve("o").fiber is None
    assert "undone" in journal
    await loader.settled()


async def test_a_mount_that_an_observer_ends_or_refuses_harms_no_other_row(
    loader: Loader, rows: Rows, journal: list[object]
):
    def observe(fiber: Any) -> None:
        if fiber.uid is not None and fiber.name == "gone":
            fiber.dispose()
        if fiber.uid is not None and fiber.name == "refused":
            raise ValueError("not this one")

    loader.own.root.on(Internal.PLUGIN, observe)
    failures = await loader.start_rows(
        rows("""
            - {id: gone, name: "@note"}
            - {id: refused, name: "@note"}
            - {id: n, name: "@note", config: n}
        """)
    )
    assert [failure.entry_id for failure in failures] == ["refused"]
    assert journal == [("up", "n")]
    assert [entry.fiber is None for entry in loader.entries()] == [True, True, False]


async def test_changes_after_the_tree_has_ended_are_refused_or_do_nothing(
    loader: Loader, rows: Rows, note: str
):
    await loader.own.root.fiber.dispose()
    await loader.apply(rows("[{id: n, name: '@note'}]"))
    assert await loader.start_rows(rows("[{id: n, name: '@note'}]")) == ()
    with pytest.raises(LoaderError) as caught:
        await loader.create({"name": note})
    assert caught.value.code == "TREE_ENDED"
