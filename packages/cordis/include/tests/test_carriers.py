from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from dsh_cordis import Context, ServiceKey
from dsh_cordis_loader import Loader, LoaderError, Row, parse_rows, read_yaml

pytestmark = pytest.mark.anyio
SVC = ServiceKey[object]("svc")


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


async def test_a_service_isolated_in_a_group_is_seen_by_siblings_and_not_by_the_root(
    loader: Loader, journal: list[object]
):
    text = """
        - id: g
          name: cordis:group
          group: true
          isolate: {svc: true}
          config:
            - {id: c, name: "cordis:note", inject: [svc], config: inside}
            - {id: p, name: "cordis:provider"}
        - {id: o, name: "cordis:note", inject: [svc], config: outside}
    """
    await loader.apply(rows(text))
    assert states(loader) == {"g": "ACTIVE", "c": "ACTIVE", "p": "ACTIVE", "o": "PENDING"}
    assert loader.own.root.get(SVC) is None
    await loader.apply(rows(text.replace("isolate: {svc: true}", "isolate: {}")))
    assert states(loader)["o"] == "ACTIVE"


async def test_inject_of_a_group_reaches_the_rows_in_it(loader: Loader):
    text = GROUP.replace("group: true\n  config", "group: true\n  inject: [svc]\n  config", 1)
    await loader.apply(rows(text + '- {id: p, name: "cordis:provider"}\n'))
    fiber = loader.resolve("b").fiber
    assert fiber is not None
    assert "svc" in fiber.inject


async def test_rows_in_groups_are_created_moved_and_removed_one_by_one(
    loader: Loader, journal: list[object]
):
    await loader.apply(rows(GROUP))
    await loader.create({"id": "n", "name": "cordis:note", "config": "n"}, parent="inner")
    assert [entry.id for entry in loader.entries()] == ["g", "a", "inner", "b", "n"]
    await loader.update("n", {}, parent=None, position=0)
    assert [entry.id for entry in loader.entries()] == ["n", "g", "a", "inner", "b"]
    await loader.update("a", {}, position=2)
    assert [entry.id for entry in loader.entries()] == ["n", "g", "inner", "b", "a"]
    await loader.remove("b")
    assert journal == [*(("up", x) for x in "abn"), ("down", "n"), ("up", "n"), ("down", "b")]
    # The group remembers: it comes back with what it held last.
    await loader.update("g", {"disabled": True})
    await loader.update("g", {"disabled": None})
    assert [entry.id for entry in loader.entries()] == ["n", "g", "inner", "a"]


async def test_a_failed_move_is_undone(loader: Loader):
    await loader.apply(rows(GROUP))
    fiber = loader.resolve("a").fiber
    with pytest.raises(LoaderError, match="moved into itself"):
        await loader.update("g", {}, parent="inner")
    with pytest.raises(LoaderError, match="boom"):
        await loader.update("a", {"name": "cordis:broken"}, parent="inner")
    with pytest.raises(LoaderError, match="holds no rows"):
        await loader.create({"name": "cordis:note"}, parent="a")
    assert [entry.id for entry in loader.entries()] == ["g", "a", "inner", "b"]
    assert loader.resolve("a").fiber is not fiber  # restarted where it was
    assert states(loader)["a"] == "ACTIVE"


async def test_a_row_in_a_group_that_disposes_itself_stays_off_when_the_group_restarts(
    loader: Loader, journal: list[object]
):
    await loader.apply(rows(GROUP))
    fiber = loader.resolve("b").fiber
    assert fiber is not None
    await fiber.dispose()
    group = loader.resolve("g").fiber
    assert group is not None
    await group.restart()
    await loader.settled()
    assert states(loader) == {"g": "ACTIVE", "a": "ACTIVE", "inner": "ACTIVE", "b": None}


async def test_a_tolerant_start_goes_on_inside_groups_and_includes(
    loader: Loader, journal: list[object], tmp_path: Path
):
    (tmp_path / "r.yml").write_text(
        '[{id: x, name: "cordis:note"}, {id: y, name: "cordis:broken"}, {id: x, name: nope}]'
    )
    text = GROUP.replace('"cordis:note", config: b', '"cordis:broken"')
    text += "- {id: i, name: 'cordis:include', config: {path: r.yml}}\n"
    text += "- {id: j, name: 'cordis:include', config: {path: none.yml}}\n"
    failures = await loader.start_rows(rows(text, tmp_path))
    kinds = {(failure.entry_id, failure.kind) for failure in failures}
    assert kinds == {("b", "apply"), ("i:y", "apply"), ("i:x", "apply"), ("j", "apply")}
    assert states(loader) == {
        **dict.fromkeys(["g", "a", "inner", "i", "i:x"], "ACTIVE"),
        **dict.fromkeys(["b", "i:y", "j"]),
    }


async def test_a_body_that_hangs_inside_a_group_is_blamed_alone(loader: Loader):
    forever = asyncio.Event()

    async def hang(ctx: Context, config: object) -> None:
        await forever.wait()

    loader.builtin("hang", hang)
    failures = await loader.start_rows(
        rows(GROUP.replace('"cordis:note", config: b', '"cordis:hang"')), activation_timeout_ms=50
    )
    assert [(failure.entry_id, failure.kind) for failure in failures] == [("b", "timeout")]
    assert states(loader) == {"g": "ACTIVE", "a": "ACTIVE", "inner": "ACTIVE", "b": None}
    forever.set()


async def test_a_row_held_in_a_group_starts_when_everything_else_rests(
    loader: Loader, journal: list[object]
):
    text = GROUP.replace("config: a}", "config: a, intercept: {loader: {await: true}}}")
    await loader.apply(rows(text))
    assert journal == [("up", "b"), ("up", "a")]
    group = loader.resolve("g").fiber
    assert group is not None
    await group.restart()
    await loader.settled()
    await anyio.wait_all_tasks_blocked()
    assert journal[-2:] == [("up", "b"), ("up", "a")]
