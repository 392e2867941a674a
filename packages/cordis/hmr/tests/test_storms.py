"""Many edits, and what they must not leave behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dsh_cordis import Context, Fiber
from dsh_cordis_hmr import HMR, Hmr

if TYPE_CHECKING:
    from conftest import Tree

pytestmark = pytest.mark.anyio


def in_place(file: Path, text: str) -> None:
    file.write_text(text)


def renamed_over(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_text(text)
    temporary.replace(file)


def deleted_and_made(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


def swapped_directory(file: Path, text: str) -> None:
    fresh = file.parent.with_name("fresh")
    fresh.mkdir()
    (fresh / file.name).write_text(text)
    file.parent.rename(file.parent.with_name("stale"))
    fresh.rename(file.parent)


@pytest.mark.parametrize("save", [in_place, renamed_over, deleted_and_made, swapped_directory])
async def test_a_plugin_saved_in_any_way_is_reloaded(
    tree: Tree, save: Callable[[Path, str], None]
) -> None:
    file = tree.plugin("plug/a.py", 1)
    await tree.rows("[{id: a, name: ./plug/a.py}]")
    await tree.watch()
    save(file, file.read_text().replace("VALUE = 1", "VALUE = 2"))
    await tree.until(lambda: ("up", 2, None) in tree.journal)


async def test_touch_garbage_and_a_directory_in_its_place_keep_the_code_that_runs(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    file = tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch()
    fiber = tree.entry("a").fiber
    os.utime(file)
    file.write_bytes(b"\xff\xfe = 1\n")
    await tree.logged(caplog, "SyntaxError")
    file.write_bytes(b"x = '\x00'\n")
    await tree.logged(caplog, "null bytes")
    file.unlink()
    file.mkdir()
    await tree.logged(caplog, "there is no Python file")
    file.rmdir()
    assert tree.entry("a").fiber is fiber
    tree.plugin("a.py", 2)
    await tree.until(lambda: tree.reloads)
    assert tree.journal == [("up", 1, None), ("down", 1), ("up", 2, None)]


async def test_twenty_edits_within_a_second_run_the_last(tree: Tree) -> None:
    tree.plugin("a.py", 0)
    tree.plugin("b.py", 0)
    await tree.rows("[{id: a, name: ./a.py}, {id: b, name: ./b.py}]")
    hmr = await tree.watch()
    other = tree.entry("b").fiber
    for value in range(1, 21):
        # Some of them are no Python on the way.
        if value % 5 == 0 and value < 20:
            tree.write("a.py", "def apply(")
        tree.plugin("a.py", value)
        await hmr.ready()
    await tree.until(lambda: ("up", 20, None) in tree.journal)
    await tree.loader.settled()
    assert_consistent(tree, 20)
    assert tree.entry("b").fiber is other


async def test_edits_while_a_slow_reload_runs_end_with_the_last_one(tree: Tree) -> None:
    slow = """
        import asyncio
        from dsh_cordis import ServiceKey

        async def apply(ctx, config):
            for _ in range(20):
                await asyncio.sleep(0)
            journal = ctx.get(ServiceKey("journal"))
            journal.append(("up", {0}, None))
            async def down():
                for _ in range(20):
                    await asyncio.sleep(0)
                journal.append(("down", {0}))
            return down
    """
    tree.write("a.py", slow.format(0))
    await tree.rows("[{id: a, name: ./a.py}]")
    await tree.watch(debounce_ms=1)
    choose = random.Random(7)
    for value in range(1, 31):
        tree.write("a.py", slow.format(value))
        for _ in range(choose.randrange(200)):
            await asyncio.sleep(0)
    await tree.until(lambda: ("up", 30, None) in tree.journal)
    await tree.loader.settled()
    assert_consistent(tree, 30)


def assert_consistent(tree: Tree, value: int) -> None:
    """One instance at a time ran, the last one is of that value."""
    assert tree.journal[-1] == ("up", value, None)
    mine = [one for one in tree.journal if one[1] != 0 or one[0] == "down"]
    ups = [one[1] for one in mine if one[0] == "up"]
    downs = [one[1] for one in mine if one[0] == "down"]
    assert downs == [0, *ups[:-1]]
    assert ups == sorted(ups)


class Census:
    """What lives in this process."""

    def __init__(self, tree: Tree) -> None:
        gc.collect()
        fibers = [one for one in gc.get_objects() if isinstance(one, Fiber) and one.uid is not None]
        self.counts = Counter(
            {
                "fibers": len(fibers),
                "effects": sum(_count(fiber.get_effects()) for fiber in fibers),
                "listeners": sum(
                    effect.label.startswith("ctx.on")
                    for fiber in fibers
                    for effect in fiber.get_effects()
                ),
                "tasks": len(asyncio.all_tasks()),
                "threads": threading.active_count(),
                "system threads": len(os.listdir("/proc/self/task")),
                "descriptors": len(os.listdir("/proc/self/fd")),
                "modules": len(sys.modules),
                "meta path": len(sys.meta_path),
                "plugin modules alive": sum(
                    type(one) is type(sys) and one.__name__.startswith(("dsh_file_", "pack"))
                    for one in gc.get_objects()
                ),
            }
        )
        self.modules = frozenset(sys.modules)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Census) and self.counts == other.counts

    def __repr__(self) -> str:
        return repr(dict(self.counts))

    __hash__ = None


def _count(effects) -> int:
    return sum(1 + _count(one.children) for one in effects)


async def test_two_hundred_reloads_leave_nothing_behind(tree: Tree) -> None:
    busy = """
        import helper_of_leaks
        from dsh_cordis import Emit, Service, ServiceKey

        class Busy(Service):
            provides = ServiceKey("busy")

            async def start(self):
                ctx = self.own
                ctx.get(ServiceKey("journal"))[:] = [helper_of_leaks.VALUE]
                ctx.on(Emit("leak/event"), lambda: None)
                ctx.plugin(lambda ctx, config: None)
                import asyncio
                gone = asyncio.Event()
                ctx.spawn(gone.wait, stop=gone.set, name="busy")
    """
    tree.write("busy.py", busy)
    tree.write("helper_of_leaks.py", "VALUE = 0\n")
    await tree.rows("[{id: a, name: './busy.py:Busy'}]")
    await tree.watch(debounce_ms=1)

    async def reload(value: int) -> None:
        tree.write("helper_of_leaks.py", f"VALUE = {value}\n")
        await tree.until(lambda: tree.journal == [value])

    async def settled() -> Census:
        await tree.loader.settled()
        await tree.root.get(HMR).ready()
        while any(task.get_name() == "reload" for task in asyncio.all_tasks()):
            await asyncio.sleep(0)
        tree.reloads.clear()
        return Census(tree)

    for value in (1, 2, 3):
        await reload(value)
    before = await settled()
    for value in range(4, 204):
        await reload(value)
    after = await settled()
    assert after.modules == before.modules
    assert after == before


async def test_an_unload_leaves_no_thread_descriptor_or_finder(tree: Tree) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    before = Census(tree)
    for _ in range(3):
        fiber = await tree.root.plugin(Hmr, {"debounce_ms": 2})
        hmr = tree.root.get(HMR)
        await hmr.ready()
        assert threading.active_count() == before.counts["threads"] + 1
        await fiber.dispose()
        assert threading.active_count() == before.counts["threads"]
        del hmr, fiber
    async with asyncio.timeout(5):
        # The system's own thread behind the watch closes its descriptors on its way out.
        while Census(tree) != before:
            await asyncio.sleep(0.01)


async def test_an_unload_before_or_while_the_watch_begins_is_clean(tree: Tree) -> None:
    tree.plugin("a.py", 1)
    await tree.rows("[{id: a, name: ./a.py}]")
    for ticks in range(12):
        fiber = await tree.root.plugin(Hmr, {"debounce_ms": 2})
        waiting = asyncio.ensure_future(tree.root.get(HMR).ready())
        for _ in range(ticks):
            await asyncio.sleep(0)
        await fiber.dispose()
        await waiting
        assert not any(thread.name == "dsh hmr watch" for thread in threading.enumerate())
    assert not any(type(finder).__name__ == "FreshFinder" for finder in sys.meta_path)
    async with Context() as root:
        assert root.get(HMR) is None
