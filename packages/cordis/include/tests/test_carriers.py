from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dsh_cordis import Context, ServiceKey
from dsh_cordis_include import register_builtins
from dsh_cordis_loader import (
    LOADER,
    EntryPoints,
    Loader,
    LoaderError,
    LoaderOptions,
    Row,
    parse_rows,
    read_yaml,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def journal() -> list[object]:
    return []


@pytest.fixture
async def loader(
    anyio_backend: str, journal: list[object], caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Loader]:
    caplog.set_level(logging.CRITICAL, "dsh.cordis")
    async with Context() as root:
        await root.plugin(Loader, LoaderOptions(entry_points=EntryPoints({})))
        loader = root.get(LOADER)
        assert loader is not None
        register_builtins(loader)

        def note(ctx: Context, config: object) -> object:
            journal.append(("up", config))
            return lambda: journal.append(("down", config))

        def broken(ctx: Context, config: object) -> None:
            raise ValueError("boom")

        def provider(ctx: Context, config: object) -> None:
            ctx.provide(ServiceKey("svc"), config)

        for name, plugin in (("note", note), ("broken", broken), ("provider", provider)):
            loader.builtin(name, plugin)
        yield loader


def rows(text: str, base: Path | None = None) -> tuple[Row, ...]:
    value = read_yaml(text, where="rows")
    return parse_rows(value, where="rows", base=str(base) if base else None, origin="")


def states(loader: Loader) -> dict[str, str | None]:
    return {e.id: e.fiber.state.name if e.fiber else None for e in loader.entries()}


GROUP = """
- id: g
  name: cordis:group
  group: true
  config:
    - {id: a, name: "cordis:note", config: a}
    - id: inner
      name: cordis:group
      group: true
      config: [{id: b, name: "cordis:note", config: b}]
"""


async def test_a_group_mounts_its_children_with_ids_of_the_same_tree(
    loader: Loader, journal: list[object]
):
    await loader.apply(rows(GROUP))
    assert states(loader) == dict.fromkeys(["g", "a", "inner", "b"], "ACTIVE")
    assert journal == [("up", "a"), ("up", "b")]


async def test_a_disabled_group_unmounts_its_children_and_mounts_them_again(
    loader: Loader, journal: list[object]
):
    await loader.apply(rows(GROUP))
    await loader.apply(
        rows(GROUP.replace("group: true\n  config", "group: true\n  disabled: true\n  config", 1))
    )
    assert states(loader) == {"g": None}
    assert sorted(map(str, journal[2:])) == ["('down', 'a')", "('down', 'b')"]
    await loader.apply(rows(GROUP))
    assert states(loader) == dict.fromkeys(["g", "a", "inner", "b"], "ACTIVE")


async def test_a_change_in_a_group_touches_only_the_changed_child(
    loader: Loader, journal: list[object]
):
    await loader.apply(rows(GROUP))
    await loader.apply(rows(GROUP.replace("config: b", "config: c")))
    assert journal == [("up", "a"), ("up", "b"), ("down", "b"), ("up", "c")]


async def test_children_are_added_and_removed_in_place(loader: Loader, journal: list[object]):
    await loader.apply(rows(GROUP))
    await loader.apply(
        rows(
            GROUP.replace(
                '{id: a, name: "cordis:note", config: a}', '{id: n, name: "cordis:note", config: n}'
            )
        )
    )
    assert journal[2:] == [("down", "a"), ("up", "n")]


async def test_a_failing_child_fails_the_change_and_is_named(loader: Loader, journal: list[object]):
    await loader.apply(rows(GROUP))
    broken = GROUP.replace('"cordis:note", config: b', '"cordis:broken"').replace(
        "config: a", "config: z"
    )
    with pytest.raises(LoaderError, match=r"loader entry b \(cordis:broken\): ValueError: boom"):
        await loader.apply(rows(broken))
    assert states(loader) == dict.fromkeys(["g", "a", "inner", "b"], "ACTIVE")
    assert sorted(map(str, journal[-2:])) == ["('up', 'a')", "('up', 'b')"]


async def test_a_child_that_cannot_be_imported_changes_nothing(
    loader: Loader, journal: list[object]
):
    await loader.apply(rows(GROUP))
    with pytest.raises(LoaderError, match="failed to import loader entry b"):
        await loader.apply(rows(GROUP.replace('"cordis:note", config: b', "nope")))
    assert states(loader) == dict.fromkeys(["g", "a", "inner", "b"], "ACTIVE")
    assert len(journal) == 2


async def test_a_group_that_waits_mounts_its_present_children_later(
    loader: Loader, journal: list[object]
):
    waiting = GROUP.replace("group: true\n  config", "group: true\n  inject: [svc]\n  config", 1)
    await loader.apply(rows(waiting))
    assert states(loader) == {"g": "PENDING"}
    await loader.apply(rows(waiting.replace("config: a", "config: z")))
    await loader.apply(
        rows(waiting.replace("config: a", "config: z") + '- {id: p, name: "cordis:provider"}\n')
    )
    assert sorted(map(str, journal)) == ["('up', 'b')", "('up', 'z')"]


async def test_an_id_is_unique_across_groups(loader: Loader):
    with pytest.raises(LoaderError, match="duplicate loader entry id: b"):
        await loader.apply(rows(GROUP + '- {id: b, name: "cordis:note"}\n'))


async def test_an_include_mounts_a_file_under_ids_of_its_own(
    loader: Loader, journal: list[object], tmp_path: Path
):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rows.yml").write_text(
        '- {id: a, name: "cordis:note", config: {v: !expr "1 + 1"}}\n'
        '- {id: g, name: "cordis:group", config: [{id: b, name: "./x.py"}]}\n'
    )
    (tmp_path / "sub" / "x.py").write_text("def apply(ctx, config): pass\n")
    await loader.apply(
        rows(
            """
            - id: a
              name: cordis:include
              config: {path: sub/rows.yml, patches: [{id: a, config: {v: !expr "2 + 2"}}]}
            """,
            tmp_path,
        )
    )
    assert states(loader) == dict.fromkeys(["a", "a:a", "a:g", "a:b"], "ACTIVE")
    assert journal == [("up", {"v": 4})]


async def test_dropping_the_patches_of_an_include_reverts_them(
    loader: Loader, journal: list[object], tmp_path: Path
):
    (tmp_path / "rows.yml").write_text('- {id: a, name: "cordis:note", config: plain}\n')
    row = "[{id: i, name: 'cordis:include', config: {path: rows.yml, patches: %s}}]"
    await loader.apply(rows(row % "[{id: a, config: patched}]", tmp_path))
    await loader.apply(rows(row % "null", tmp_path))
    assert journal == [("up", "patched"), ("down", "patched"), ("up", "plain")]


@pytest.mark.parametrize("content", ["a: 'x", "", "a: 1"])
async def test_a_bad_included_file_leaves_the_old_tree(
    loader: Loader, journal: list[object], tmp_path: Path, content: str
):
    (tmp_path / "rows.yml").write_text('- {id: a, name: "cordis:note", config: a}\n')
    (tmp_path / "bad.yml").write_text(content)
    row = "[{id: i, name: 'cordis:include', config: {path: %s}}]"
    await loader.apply(rows(row % "rows.yml", tmp_path))
    with pytest.raises(LoaderError, match=r"loader entry i .*config file .*bad.yml"):
        await loader.apply(rows(row % "bad.yml", tmp_path))
    assert states(loader) == {"i": "ACTIVE", "i:a": "ACTIVE"}


@pytest.mark.parametrize("config", ["{}", "{path: 5}", "{path: a.yml, inital: []}", "text"])
async def test_the_config_of_an_include_is_checked(loader: Loader, config: str):
    with pytest.raises(LoaderError, match=r"include i: config is \{path: FILE, patches"):
        await loader.apply(rows(f"[{{id: i, name: 'cordis:include', config: {config}}}]"))
