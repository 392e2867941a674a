"""Files that includes read, read again and write back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from dsh_cordis import Context, Service, ServiceKey
from dsh_cordis_include import IncludeError
from dsh_cordis_loader import Expr, Loader, LoaderError, Row, parse_rows, read_yaml

pytestmark = pytest.mark.anyio
Tree = Callable[[str], tuple[Row, ...]]

FILE = """\
# what runs
- id: a           # the first
  name: cordis:note
  config: {v: !expr "1 + 1", k: 'kept'}
- id: g
  name: cordis:group
  group: true
  config:
    # inside
    - {id: b, name: "cordis:note", config: b}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "rows.yml"
    file.write_text(FILE)
    return file


@pytest.fixture
def tree(tmp_path: Path, file: Path) -> Tree:
    """One include of `rows.yml` with the rest of its config."""

    def make(rest: str = "") -> tuple[Row, ...]:
        text = f"[{{id: i, name: 'cordis:include', config: {{path: rows.yml{rest}}}}}]"
        return parse_rows(read_yaml(text, where="r"), where="r", base=str(tmp_path), origin="mine")

    return make


async def refresh(loader: Loader) -> None:
    for read_again in loader.watched_files().values():
        await read_again()


def fibers(loader: Loader) -> dict[str, object]:
    return {entry.id: entry.fiber for entry in loader.entries()}


async def test_a_file_that_changed_changes_only_what_differs(
    loader: Loader, file: Path, tree: Tree, journal: list[object]
):
    await loader.apply(tree())
    assert list(loader.watched_files()) == [file]
    before = fibers(loader)
    file.write_text(FILE.replace("config: b", "config: c"))
    await refresh(loader)
    assert journal[2:] == [("down", "b"), ("up", "c")]
    assert fibers(loader) == before


async def test_a_refresh_of_the_same_text_changes_nothing(
    loader: Loader, tree: Tree, journal: list[object]
):
    await loader.apply(tree())
    fiber = loader.resolve("i:b").fiber
    assert fiber is not None
    await fiber.dispose()
    await refresh(loader)
    assert loader.resolve("i:b").fiber is None


@pytest.mark.parametrize("bad", ["- a: 'x", "", "a: 1", "- {id: z, name: 'cordis:broken'}"])
async def test_a_bad_text_leaves_the_old_tree_and_the_next_one_applies(
    loader: Loader, file: Path, tree: Tree, journal: list[object], bad: str
):
    await loader.apply(tree())
    before = fibers(loader)
    file.write_text(bad)
    for _ in range(2):  # not remembered: the same text is tried again
        with pytest.raises((IncludeError, LoaderError)):
            await refresh(loader)
    assert list(fibers(loader)) == list(before)
    file.write_text(FILE.replace("config: b", "config: d"))
    await refresh(loader)
    assert journal[-1] == ("up", "d")


async def test_a_file_that_includes_itself_is_refused(loader: Loader, file: Path, tree: Tree):
    other = file.with_name("other.yml")
    file.write_text(f"- {{id: o, name: 'cordis:include', config: {{path: {other}}}}}\n")
    other.write_text(f"- {{id: b, name: 'cordis:include', config: {{path: {file}}}}}\n")
    with pytest.raises(LoaderError, match="includes itself"):
        await loader.apply(tree())


async def test_a_file_that_vanished_leaves_the_old_tree(loader: Loader, file: Path, tree: Tree):
    await loader.apply(tree())
    file.unlink()
    with pytest.raises(IncludeError, match="config file not found"):
        await refresh(loader)
    assert "i:a" in fibers(loader)


async def test_concurrent_refreshes_never_overlap(
    loader: Loader, file: Path, tree: Tree, journal: list[object]
):
    running: list[int] = []

    async def slow(ctx: object, config: object) -> None:
        running.append(1)
        assert len(running) == 1
        await anyio.lowlevel.checkpoint()
        running.pop()

    loader.builtin("slow", slow)
    await loader.apply(tree())
    async with anyio.create_task_group() as group:
        for number in range(5):
            file.write_text(f"- {{id: s, name: 'cordis:slow', config: {number}}}\n")
            group.start_soon(refresh, loader)
            await anyio.lowlevel.checkpoint()
    assert loader.resolve("i:s").row.config == 4
    assert [entry.id for entry in loader.entries()] == ["i", "i:s"]


async def test_other_patches_for_the_same_file_apply_in_place(
    loader: Loader, tree: Tree, journal: list[object]
):
    await loader.apply(tree(", patches: [{id: b, config: x}]"))
    before = fibers(loader)
    await loader.apply(tree(", patches: [{id: b, config: y}]"))
    await loader.apply(tree())
    assert fibers(loader) == before
    ups = [("up", "x"), ("down", "x"), ("up", "y"), ("down", "y"), ("up", "b")]
    assert journal[1:] == ups


async def test_patches_that_cannot_run_are_taken_back(
    loader: Loader, tree: Tree, journal: list[object]
):
    await loader.apply(tree(", patches: [{id: b, config: x}]"))
    with pytest.raises(LoaderError, match="loader entry i:z"):
        await loader.apply(tree(", patches: [{insert: [{id: z, name: 'cordis:broken'}]}]"))
    assert loader.resolve("i").row.config == {
        "path": "rows.yml",
        "patches": [{"id": "b", "config": "x"}],
    }
    assert journal[-1] == ("up", "x")
    await refresh(loader)


async def test_another_file_restarts_the_include(
    loader: Loader, tmp_path: Path, tree: Tree, journal: list[object]
):
    await loader.apply(tree())
    (tmp_path / "other.yml").write_text("[{id: o, name: 'cordis:note', config: o}]")
    await loader.update("i", {"config": {"path": "other.yml"}})
    assert list(fibers(loader)) == ["i", "i:o"]
    assert list(loader.watched_files()) == [tmp_path / "other.yml"]


async def test_initial_rows_are_written_only_when_the_file_is_missing(
    loader: Loader, file: Path, tree: Tree, journal: list[object]
):
    rest = ", initial: [{id: n, name: 'cordis:note', config: {v: !expr 1 + 2}}]"
    await loader.apply(tree(rest))
    assert "i:n" not in fibers(loader)
    await loader.apply(())
    file.unlink()
    await loader.apply(tree(rest))
    assert journal[-1] == ("up", {"v": 3})
    assert read_yaml(file.read_bytes(), where="f") == [
        {"id": "n", "name": "cordis:note", "config": {"v": loader.resolve("i:n").row.config["v"]}}  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]
    ]


async def test_initial_rows_that_are_none_write_nothing(loader: Loader, file: Path, tree: Tree):
    file.unlink()
    with pytest.raises(LoaderError, match="failed to validate config file"):
        await loader.apply(tree(", initial: [{id: n}]"))
    assert not file.exists()


async def test_initial_rows_run_from_memory_where_nothing_can_be_written(
    loader: Loader, file: Path, journal: list[object], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "dsh.cordis.include")
    text = f"""
    - id: i
      name: cordis:include
      config: {{path: {file}/below.yml, initial: [{{id: n, name: 'cordis:note', config: n}}]}}
    """
    value = parse_rows(read_yaml(text, where="r"), where="r", base=None, origin="")
    with pytest.raises(LoaderError, match="failed to read config file"):
        await loader.apply(value)
    sealed = Path("/proc/no-such-place/below.yml")
    text = text.replace(f"{file}/below.yml", str(sealed))
    await loader.apply(parse_rows(read_yaml(text, where="r"), where="r", base=None, origin=""))
    assert journal == [("up", "n")]
    assert "they run from memory" in caplog.text


async def test_a_change_of_an_included_row_is_written_into_its_file(
    loader: Loader, file: Path, tree: Tree
):
    await loader.apply(tree())
    await loader.update("i:a", {"config": {"v": 7, "k": "kept"}, "disabled": True})
    assert file.read_text() == FILE.replace(
        "  config: {v: !expr \"1 + 1\", k: 'kept'}\n",
        "  config: {v: 7, k: 'kept'}\n  disabled: true\n",
    )
    assert Path(f"{file}.last-good").read_text() == FILE
    await refresh(loader)
    assert loader.resolve("i:a").fiber is None


async def test_included_rows_are_created_moved_and_removed_in_their_file(
    loader: Loader, file: Path, tree: Tree
):
    await loader.apply(tree())
    await loader.create({"id": "n", "name": "cordis:note"}, parent="i", position=0)
    await loader.create({"id": "m", "name": "cordis:note"}, parent="i:g")
    await loader.update("i:m", {}, parent="i")
    await loader.remove("i:a")
    await loader.update("i:b", {"config": None})
    shown = [entry.id for entry in loader.entries()]
    assert shown == ["i", "i:n", "i:g", "i:b", "i:m"]
    assert file.read_text() == (
        "# what runs\n- id: n\n  name: cordis:note\n- id: g\n  name: cordis:group\n"
        '  group: true\n  config:\n    # inside\n    - {id: b, name: "cordis:note"}\n'
        "- id: m\n  name: cordis:note\n"
    )
    before = fibers(loader)
    await loader.apply(())
    await loader.apply(tree())
    assert list(fibers(loader)) == list(before)


async def test_a_json_file_stays_json(loader: Loader, tmp_path: Path):
    file = tmp_path / "rows.json"
    file.write_text('[{"id": "a", "name": "cordis:note"}]')
    text = f"[{{id: i, name: 'cordis:include', config: {{path: {file}}}}}]"
    await loader.apply(parse_rows(read_yaml(text, where="r"), where="r", base=None, origin=""))
    await loader.update("i:a", {"config": [1]})
    await loader.create({"id": "b", "name": "cordis:note"}, parent="i")
    assert file.read_text().startswith('[\n  {\n    "id": "a"')
    assert read_yaml(file.read_text(), where="f") == [
        {"id": "a", "name": "cordis:note", "config": [1]},
        {"id": "b", "name": "cordis:note"},
    ]


async def test_a_relative_plugin_file_of_an_included_row_stands_beside_its_file(
    loader: Loader, tmp_path: Path, tree: Tree, file: Path
):
    (tmp_path / "plug.py").write_text("def apply(ctx, config): pass\n")
    await loader.apply(tree())
    entry = await loader.create({"id": "p", "name": "./plug.py"}, parent="i")
    assert entry.row.name == str(tmp_path / "plug.py")
    assert "name: ./plug.py" in file.read_text()


async def test_an_update_evaluates_disabled_again_and_keeps_the_expression(
    loader: Loader, file: Path, tree: Tree, journal: list[object]
):
    text = "- id: a\n  name: cordis:note\n  disabled: !expr \"platform != 'none'\"  # when\n"
    file.write_text(text)
    await loader.apply(tree())
    assert loader.resolve("i:a").fiber is None
    await loader.update("i:a", {"config": 1})
    assert loader.resolve("i:a").row.disabled == Expr("platform != 'none'")
    assert file.read_text() == text + "  config: 1\n"
    await loader.update("i:a", {"disabled": Expr("platform == 'none'")})
    assert journal == [("up", 1)]


async def test_a_row_that_disposes_itself_is_switched_off_in_its_file(
    loader: Loader, file: Path, tree: Tree
):
    await loader.apply(tree())
    fiber = loader.resolve("i:b").fiber
    assert fiber is not None
    await fiber.dispose()
    await loader.own.root.fiber.dispose()  # what is to be written is written by then
    assert '- {id: b, name: "cordis:note", config: b, disabled: true}' in file.read_text()


async def test_a_direct_update_of_an_include_is_taken_in_place(
    loader: Loader, tree: Tree, journal: list[object]
):
    await loader.apply(tree())
    before = fibers(loader)
    include = loader.resolve("i").fiber
    assert include is not None
    await include.update({"path": "rows.yml", "patches": [{"id": "b", "config": "z"}]})
    assert journal[-1] == ("up", "z")
    assert fibers(loader) == before
    assert loader.resolve("i").row.config == include.config
    with pytest.raises(IncludeError, match="config is"):
        await include.update({"path": 5})
    assert fibers(loader) == before


async def test_two_hundred_changes_of_a_file_leave_nothing_behind(
    loader: Loader, file: Path, tree: Tree, journal: list[object]
):
    def counts() -> tuple[int, int, int]:
        root = loader.own.root
        mounted = sum(len(runtime.fibers) for runtime in root.registry.values())
        effects = len(loader.own.fiber.get_effects()) + len(root.fiber.get_effects())
        return mounted, effects, len(asyncio.all_tasks())

    await loader.apply(tree())
    before = counts()
    for number in range(200):
        file.write_text(FILE.replace("config: b", f"config: {number}"))
        await refresh(loader)
    file.write_text(FILE)
    await refresh(loader)
    assert counts() == before
    assert journal[-1] == ("up", "b")


async def test_a_change_in_a_file_that_breaks_a_row_elsewhere_is_taken_back(
    loader: Loader, file: Path, tree: Tree, journal: list[object]
):
    def picky(ctx: Context, config: object) -> None:
        if config == {"size": "9"}:
            raise ValueError("too big")

    class Sized(Service):
        provides = ServiceKey[object]("sized")

        def __init__(self, ctx: Context, config: str) -> None:
            super().__init__(ctx, config)
            self.size = config

        def expression_fields(self) -> dict[str, object]:
            return {"size": self.size}

    loader.builtin("picky", picky)
    loader.builtin("sized", Sized)
    outside = "{id: o, name: 'cordis:picky', inject: [sized], config: {size: !expr ctx.sized.size}}"
    value = read_yaml(f"[{outside}]", where="r")
    rows = (*tree(), *parse_rows(value, where="r", base=None, origin=""))
    text = "[{id: s, name: 'cordis:sized', config: '1'}]"
    file.write_text(text)
    await loader.apply(rows)
    file.write_text(text.replace("1", "9"))
    with pytest.raises(LoaderError, match=r"loader entry o .*too big"):
        await refresh(loader)
    assert loader.resolve("i:s").row.config == "1"
    await loader.settled()
