from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

import pytest
from dsh_cordis import FiberState
from dsh_cordis_hmr import HMR, HMR_CHANGE

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Tree

pytestmark = pytest.mark.anyio


async def test_plugin_file_edit_re_runs_the_body_with_the_raw_config(tree: Tree) -> None:
    file = tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py, config: {x: 1}}]")
    await tree.watch()
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert tree.journal == [("up", 1, {"x": 1}), ("down", 1), ("up", 2, {"x": 1})]
    assert tree.reloads[0].files == (file,)
    assert tree.reloads[0].rows == ("a",)


async def test_syntax_error_keeps_the_old_instance_and_names_file_and_line(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    file = tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    fiber, module = tree.entry("a").fiber, sys.modules[tree.entry("a").module]
    tree.write("a.py", "def apply(ctx, config):\n    return (\n")
    await tree.logged(caplog, f"{file}:2: SyntaxError")
    assert tree.entry("a").fiber is fiber
    assert sys.modules[tree.entry("a").module] is module
    tree.plugin("a.py", 3)
    await tree.until(lambda: tree.reloads)
    assert tree.journal == [("up", 1, None), ("down", 1), ("up", 3, None)]


async def test_an_import_that_raises_disposes_nothing_and_names_file_and_line(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    file = tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    tree.write("a.py", "x = 1\nraise ValueError('no good')\n")
    await tree.logged(caplog, f"{file}:2: ValueError: no good")
    tree.write("a.py", "x = 1\nraise SystemExit(3)\n")
    await tree.logged(caplog, "SystemExit")
    tree.write("a.py", "import there_is_no_such_module\n")
    await tree.logged(caplog, "there_is_no_such_module")
    assert tree.journal == [("up", 1, None)]
    assert tree.state("a") is FiberState.ACTIVE


async def test_a_body_that_fails_brings_the_old_plugin_and_modules_back_and_says_why(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    old, module = tree.entry("a").plugin, sys.modules[tree.entry("a").module]
    tree.write("a.py", "def apply(ctx, config):\n    raise ValueError('bad body')\n")
    await tree.logged(caplog, "ValueError: bad body")
    assert tree.journal == [("up", 1, None), ("down", 1), ("up", 1, None)]
    assert tree.entry("a").plugin is old
    assert sys.modules[tree.entry("a").module] is module
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert tree.journal[-1] == ("up", 2, None)


async def test_old_cleanup_is_awaited_before_the_new_body_starts(tree: Tree) -> None:
    slow = """
        import asyncio
        from dsh_cordis import ServiceKey

        async def apply(ctx, config):
            journal = ctx.get(ServiceKey("journal"))
            journal.append("up {0}")
            async def down():
                for _ in range(5):
                    await asyncio.sleep(0)
                journal.append("down {0}")
            return down
    """
    tree.write("a.py", slow.format(1))
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    tree.write("a.py", slow.format(2))
    await tree.until(lambda: tree.reloads)
    assert tree.journal == ["up 1", "down 1", "up 2"]


async def test_only_rows_that_stand_on_the_changed_file_are_reloaded(tree: Tree) -> None:
    tree.write("helper.py", "VALUE = 1\n")
    tree.write(
        "uses.py",
        """
        from dsh_cordis import ServiceKey
        from helper import VALUE

        def apply(ctx, config):
            ctx.get(ServiceKey("journal")).append(VALUE)
        """,
    )
    tree.plugin("other.py", "o")
    await tree.rows("[{id: uses, name: ./uses.py}, {id: other, name: ./other.py}]")
    await tree.watch()
    other = tree.entry("other").fiber
    tree.write("helper.py", "VALUE = 2\n")
    await tree.until(lambda: tree.reloads)
    assert tree.reloads[0].rows == ("uses",)
    assert tree.journal == [1, ("up", "o", None), 2]
    assert tree.entry("other").fiber is other


async def test_two_rows_of_one_module_are_reloaded_together(tree: Tree) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}, {id: b, name: ./a.py, config: 7}]")
    await tree.watch()
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert tree.reloads[0].rows == ("a", "b")
    assert tree.journal[-2:] == [("up", 2, None), ("up", 2, 7)]
    assert tree.entry("a").plugin is tree.entry("b").plugin


async def test_if_one_of_two_rows_refuses_the_new_code_both_keep_the_old(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}, {id: b, name: ./a.py, config: 7}]")
    await tree.watch()
    old = tree.entry("a").plugin
    tree.write(
        "a.py",
        """
        def apply(ctx, config):
            if config == 7:
                raise ValueError("not for me")
        """,
    )
    await tree.logged(caplog, "not for me")
    assert tree.entry("a").plugin is old
    assert tree.entry("b").plugin is old
    assert tree.journal[-2:] == [("up", 1, None), ("up", 1, 7)]


PACKAGE = {
    "pack/__init__.py": "from ._plugin import Plug\n",
    "pack/_plugin.py": """
        from dsh_cordis import Service, ServiceKey
        from ._values import VALUE

        class Plug(Service):
            provides = ServiceKey("plug")

            def __init__(self, ctx, config=None):
                super().__init__(ctx, config)
                from ._late import late
                ctx.get(ServiceKey("journal")).append((VALUE, late()))
    """,
    "pack/_values.py": "VALUE = 1\n",
    "pack/_late.py": "def late():\n    return 'late 1'\n",
}


async def package(tree: Tree) -> None:
    for name, text in PACKAGE.items():
        tree.write(name, text)
    await tree.rows("[{id: p, name: 'pack:Plug'}]")


async def test_a_package_of_several_modules_is_reloaded_as_one(tree: Tree) -> None:
    await package(tree)
    await tree.watch()
    tree.write("pack/_values.py", "VALUE = 2\n")
    await tree.until(lambda: tree.reloads)
    tree.write("pack/_late.py", "def late():\n    return 'late 2'\n")
    await tree.until(lambda: len(tree.reloads) == 2)
    assert tree.journal == [(1, "late 1"), (2, "late 1"), (2, "late 2")]
    assert sys.modules["pack"].Plug is tree.entry("p").plugin


async def test_an_error_in_a_module_that_is_imported_late_shows_at_the_edit(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    await package(tree)
    await tree.watch()
    before = {name: sys.modules[name] for name in sys.modules if name.startswith("pack")}
    file = tree.write("pack/_late.py", "def late(:\n")
    await tree.logged(caplog, f"{file}:1: SyntaxError")
    assert {name: sys.modules[name] for name in sys.modules if name.startswith("pack")} == before
    assert tree.journal == [(1, "late 1")]


async def test_a_module_that_is_no_longer_used_may_be_deleted(tree: Tree) -> None:
    await package(tree)
    await tree.watch()
    (tree.directory / "pack/_values.py").unlink()
    tree.write("pack/_plugin.py", PACKAGE["pack/_plugin.py"].replace("from ._values", "#"))
    tree.write(
        "pack/_plugin.py",
        PACKAGE["pack/_plugin.py"].replace("from ._values import VALUE", "VALUE = 'own'"),
    )
    await tree.until(lambda: tree.reloads)
    assert tree.journal[-1] == ("own", "late 1")
    assert "pack._values" not in sys.modules


async def test_a_file_that_a_failed_reload_missed_is_enough_to_go_on(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    tree.write(
        "a.py",
        """
        from dsh_cordis import ServiceKey
        from made_later import VALUE

        def apply(ctx, config):
            ctx.get(ServiceKey("journal")).append(VALUE)
        """,
    )
    await tree.logged(caplog, "made_later")
    tree.write("made_later.py", "VALUE = 'there now'\n")
    await tree.until(lambda: tree.reloads)
    assert tree.journal[-1] == "there now"


async def test_taking_a_bad_edit_back_reloads_nothing(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.plugin("a.py", 1)
    tree.plugin("b.py", 1)
    await tree.rows("[{id: a, name: ./a.py}, {id: b, name: ./b.py}]")
    await tree.watch()
    fiber = tree.entry("a").fiber
    file = tree.write("a.py", "(")
    await tree.logged(caplog, f"{file}:1")
    tree.plugin("a.py", 1)
    tree.plugin("b.py", 2)
    await tree.until(lambda: tree.reloads)
    assert [one.rows for one in tree.reloads] == [("b",)]
    assert tree.entry("a").fiber is fiber


async def test_two_edits_of_one_size_within_a_second_run_the_second(tree: Tree) -> None:
    tree.write("steady.py", "VALUE = 1\n")
    tree.write(
        "a.py",
        """
        import steady
        from dsh_cordis import ServiceKey

        def apply(ctx, config):
            ctx.get(ServiceKey("journal")).append(steady.VALUE)
        """,
    )
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    moment = 1_700_000_000
    for value in (2, 3):
        file = tree.write("steady.py", f"VALUE = {value}\n")
        os.utime(file, (moment, moment))
        await tree.until(lambda value=value: value in tree.journal)
    assert tree.journal == [1, 2, 3]


async def test_code_edited_while_its_row_was_away_is_what_runs_when_it_comes_back(
    tree: Tree,
) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    hmr = await tree.watch()
    await tree.rows("[]")
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    await hmr.ready()
    await tree.rows("[{id: a, name: ./a.py}]")
    assert tree.journal[-1] == ("up", 2, None)


async def test_a_row_that_is_added_later_is_watched_too(tree: Tree) -> None:
    hmr = await tree.watch()
    (tree.directory / "far").mkdir()
    tree.plugin("far/a.py", 1)
    await tree.rows("[{id: a, name: ./far/a.py}]")
    await hmr.ready()
    tree.plugin("far/a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert tree.journal[-1] == ("up", 2, None)


async def test_a_service_keeps_its_dependents_through_a_reload(tree: Tree) -> None:
    provider = """
        from dsh_cordis import Service, ServiceKey

        class P(Service):
            provides = ServiceKey("p")
            value = {0}
    """
    tree.write("p.py", provider.format(1))
    tree.write(
        "c.py",
        """
        from dsh_cordis import ServiceKey

        P = ServiceKey("p")
        inject = (P,)

        def apply(ctx, config):
            ctx.get(ServiceKey("journal")).append(ctx[P].value)
        """,
    )
    await tree.rows("[{id: c, name: ./c.py}, {id: p, name: './p.py:P'}]")
    await tree.watch()
    consumer = tree.entry("c").fiber
    tree.write("p.py", provider.format(2))
    await tree.until(lambda: tree.reloads)
    assert tree.journal == [1, 2]
    assert tree.entry("c").fiber is consumer
    assert tree.state("c") is FiberState.ACTIVE


async def test_a_change_in_the_running_product_says_once_that_a_restart_is_needed(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    file = tree.write(
        "host.py", "from dsh_cordis import ServiceKey\nHOST = ServiceKey('host')\nclass Host: ...\n"
    )
    host = importlib.import_module("host")

    tree.root.provide(host.HOST, host.Host())
    tree.write("a.py", "import host\ndef apply(ctx, config): ...\n")
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    fiber = tree.entry("a").fiber
    with file.open("a") as stream:
        stream.write("# one\n")
    await tree.logged(caplog, "restart")
    with file.open("a") as stream:
        stream.write("# two\n")
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert sum("restart" in record.message for record in caplog.records) == 1
    assert sys.modules["host"] is host
    assert tree.entry("a").fiber is not fiber


async def test_other_files_beside_sources_and_below_roots_are_told_of(
    tree: Tree, tmp_path: Path
) -> None:
    root = tmp_path / "assets"
    (root / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch(root=[str(root)])
    seen: list[Path] = []
    tree.root.on(HMR_CHANGE, lambda path: (seen.append(path), tree.poke())[0])
    (root / ".git" / "index").write_text("x")
    (root / "deep" / "page.html").write_text("x")
    await tree.until(lambda: root / "deep" / "page.html" in seen)
    (tree.directory / "template.txt").write_text("x")
    await tree.until(lambda: tree.directory / "template.txt" in seen)
    (root / "new" / "below").mkdir(parents=True)
    (root / "new" / "below" / "x").write_text("x")
    await tree.until(lambda: root / "new" / "below" / "x" in seen)
    assert root / ".git" / "index" not in seen


async def test_installed_code_is_neither_watched_nor_reloaded(tree: Tree, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "thing-1.dist-info").mkdir(parents=True)
    (site / "installed_thing.py").write_text("def apply(ctx, config): ...\n")
    sys.path.append(str(site))
    try:
        tree.plugin("a.py", 1)
        await tree.rows("[{id: t, name: 'installed_thing:apply'}, {id: a, name: ./a.py}]")
        await tree.watch()
        fiber = tree.entry("t").fiber
        (site / "installed_thing.py").write_text("raise ValueError\n")
        tree.plugin("a.py", 2)
        await tree.until(lambda: tree.reloads)
    finally:
        sys.path.remove(str(site))
    assert [one.rows for one in tree.reloads] == [("a",)]
    assert tree.entry("t").fiber is fiber


async def test_without_sources_plugins_are_left_alone(tree: Tree) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    hmr = await tree.watch(sources=False)
    seen: list[str] = []

    async def refresh() -> None:
        seen.append("ran")
        tree.poke()

    hmr.watch_file(tree.directory / "x.yml", refresh)
    await hmr.ready()
    tree.plugin("a.py", 2)
    tree.write("x.yml", "1")
    await tree.until(lambda: seen)
    assert tree.journal == [("up", 1, None)]
    assert not any(type(finder).__name__ == "FreshFinder" for finder in sys.meta_path)


async def test_a_reload_that_its_own_service_does_not_survive_still_ends_well(tree: Tree) -> None:
    # The reloaded row takes the service down in its cleanup.
    tree.write(
        "a.py",
        """
        from dsh_cordis import ServiceKey

        def apply(ctx, config):
            journal = ctx.get(ServiceKey("journal"))
            journal.append("up 1")
            return lambda: journal[0] and ctx.root.get(ServiceKey("stopper"))()
        """,
    )
    await tree.rows("[{id: a, name: ./a.py}]")
    from dsh_cordis import ServiceKey
    from dsh_cordis_hmr import Hmr

    fiber = await tree.root.plugin(Hmr, {"debounce_ms": 10})
    await tree.root.get(HMR).ready()
    tree.root.provide(ServiceKey("stopper"), lambda: fiber.dispose() and None)
    tree.plugin("a.py", 2)
    await tree.until(lambda: ("up", 2, None) in tree.journal)
    await tree.loader.settled()
    assert tree.journal == ["up 1", ("up", 2, None)]
    assert tree.root.get(HMR) is None


async def test_a_finder_of_another_harness_in_the_process_does_not_ask_in_circles(
    tree: Tree,
) -> None:
    from dsh_cordis import Context
    from dsh_cordis_hmr import Hmr
    from dsh_cordis_loader import Loader, LoaderOptions, scan_entry_points

    await tree.watch()
    async with Context() as second:
        await second.plugin(Loader, LoaderOptions(entry_points=scan_entry_points([])))
        await second.plugin(Hmr)
        await second.get(HMR).ready()
        tree.write("in_circles.py", "VALUE = 1\n")
        assert importlib.import_module("in_circles").VALUE == 1
