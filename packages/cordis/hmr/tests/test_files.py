from __future__ import annotations

import asyncio
import logging
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dsh_cordis import Context
from dsh_cordis_hmr import CONFIG_UPDATE_FAILED, HmrError
from dsh_cordis_hmr._keys import ConfigUpdateFailed

if TYPE_CHECKING:
    from conftest import Tree

pytestmark = pytest.mark.anyio


class Refreshed:
    """Reads a file at each run."""

    def __init__(self, tree: Tree, file: Path) -> None:
        self.tree = tree
        self.file = file
        self.texts: list[str | None] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: BaseException | None = None

    async def __call__(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            self.texts.append(self._read())
            self.tree.poke()
            await self.gate.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.running -= 1
            self.tree.poke()

    def _read(self) -> str | None:
        try:
            return self.file.read_text("utf-8", "replace")
        except OSError:
            return None

    async def last(self, text: str | None) -> None:
        await self.tree.until(lambda: self.texts[-1:] == [text] and not self.running)


@pytest.fixture
async def watching(tree: Tree, tmp_path: Path):
    """Watches one file whose directory does not exist yet."""
    hmr = await tree.watch(sources=False)
    refreshed = Refreshed(tree, tmp_path / "not" / "yet" / "conf.yml")
    dispose = hmr.watch_file(refreshed.file, refreshed)
    await hmr.ready()
    return hmr, refreshed, dispose


async def test_create_modify_delete_under_a_missing_parent_are_refreshed_each_time(
    watching,
) -> None:
    _, refreshed, _ = watching
    refreshed.file.parent.mkdir(parents=True)
    for text in ("one", "two"):
        refreshed.file.write_text(text)
        await refreshed.last(text)
    refreshed.file.unlink()
    await refreshed.last(None)
    shutil.rmtree(refreshed.file.parent.parent)
    refreshed.file.parent.mkdir(parents=True)
    refreshed.file.write_text("again")
    await refreshed.last("again")


async def test_a_file_that_is_there_is_refreshed_once_now(tree: Tree, tmp_path: Path) -> None:
    hmr = await tree.watch(sources=False)
    refreshed = Refreshed(tree, tmp_path / "c.yml")
    refreshed.file.write_text("here")
    hmr.watch_file(refreshed.file, refreshed)
    await refreshed.last("here")
    await hmr.ready()
    assert refreshed.texts == ["here"]


async def test_writes_during_a_slow_refresh_lead_to_one_more_run_and_disposal_waits(
    watching,
) -> None:
    hmr, refreshed, dispose = watching
    refreshed.file.parent.mkdir(parents=True)
    refreshed.gate.clear()
    refreshed.file.write_text("0")
    await refreshed.tree.until(lambda: refreshed.texts)
    for text in ("1", "2", "3"):
        refreshed.file.write_text(text)
        await hmr.ready()
    refreshed.gate.set()
    await refreshed.last("3")
    assert refreshed.texts in (["0", "3"], ["0", "0", "3"])
    assert refreshed.most == 1
    refreshed.gate.clear()
    refreshed.file.write_text("4")
    await refreshed.tree.until(lambda: refreshed.running)
    ending = asyncio.ensure_future(dispose())
    await asyncio.sleep(0)
    assert not ending.done()
    refreshed.gate.set()
    await ending
    assert refreshed.running == 0
    refreshed.file.write_text("unheard")
    await hmr.ready()
    assert refreshed.texts[-1] == "4"


async def test_a_refresh_that_raises_a_non_error_is_told_of_as_an_error_and_the_next_write_runs(
    watching, caplog: pytest.LogCaptureFixture
) -> None:
    _, refreshed, _ = watching
    failures = refreshed.tree.failures
    refreshed.file.parent.mkdir(parents=True)
    for error in (SystemExit(3), asyncio.CancelledError(), ValueError("plain")):
        count = len(failures)
        refreshed.error = error
        refreshed.file.write_text(repr(error))
        await refreshed.tree.until(lambda count=count: len(failures) > count)
        assert isinstance(failures[-1].error, Exception)
        assert failures[-1].file == refreshed.file
    assert isinstance(failures[0].error, HmrError)
    assert failures[0].error.code == "REFRESH_STOPPED"
    refreshed.error = None
    refreshed.file.write_text("good")
    await refreshed.last("good")
    assert len(failures) == 3
    assert "cannot be used, what was before goes on" in caplog.text


async def test_observers_of_failures_are_contained(
    watching, caplog: pytest.LogCaptureFixture
) -> None:
    _, refreshed, _ = watching

    def observer(_failed: ConfigUpdateFailed) -> None:
        raise RuntimeError("observer")

    refreshed.tree.root.on(CONFIG_UPDATE_FAILED, observer, prepend=True)
    refreshed.error = ValueError("bad")
    refreshed.file.parent.mkdir(parents=True)
    refreshed.file.write_text("bad")
    await refreshed.tree.until(lambda: refreshed.tree.failures)
    refreshed.error = None
    refreshed.file.write_text("good")
    await refreshed.last("good")


async def test_alias_of_a_registered_path_is_refused(watching, tmp_path: Path) -> None:
    hmr, refreshed, dispose = watching
    alias = tmp_path / "alias"
    alias.symlink_to(tmp_path / "not")
    for other in (alias / "yet" / "conf.yml", refreshed.file, tmp_path / "not/./yet/conf.yml"):
        with pytest.raises(HmrError, match="config path already registered: ") as refused:
            hmr.watch_file(other, refreshed)
        assert refused.value.code == "ALREADY_WATCHED"
    await dispose()
    await hmr.watch_file(refreshed.file, refreshed)()


async def test_a_path_below_a_file_is_refused(watching, tmp_path: Path) -> None:
    hmr, refreshed, _ = watching
    (tmp_path / "file").write_text("")
    with pytest.raises(HmrError, match="cannot be watched") as refused:
        hmr.watch_file(tmp_path / "file" / "conf.yml", refreshed)
    assert refused.value.code == "INVALID_PATH"


async def test_a_link_is_watched_with_what_it_leads_to(tree: Tree, tmp_path: Path) -> None:
    hmr = await tree.watch(sources=False)
    (tmp_path / "dotfiles").mkdir()
    target, other = tmp_path / "dotfiles" / "real.yml", tmp_path / "dotfiles" / "other.yml"
    target.write_text("one")
    other.write_text("elsewhere")
    (tmp_path / "home").mkdir()
    refreshed = Refreshed(tree, tmp_path / "home" / "conf.yml")
    refreshed.file.symlink_to(target)
    hmr.watch_file(refreshed.file, refreshed)
    await refreshed.last("one")
    target.write_text("two")
    await refreshed.last("two")
    new = tmp_path / "home" / "new"
    new.symlink_to(other)
    new.replace(refreshed.file)
    await refreshed.last("elsewhere")
    await hmr.ready()
    other.write_text("edited there")
    await refreshed.last("edited there")


def in_place(file: Path, data: bytes) -> None:
    file.write_bytes(data)


def renamed_over(file: Path, data: bytes) -> None:
    temporary = file.with_name(f".{file.name}.swp")
    temporary.write_bytes(data)
    temporary.replace(file)


def deleted_and_made(file: Path, data: bytes) -> None:
    file.unlink(missing_ok=True)
    file.write_bytes(data)


def moved_away_and_made(file: Path, data: bytes) -> None:
    if file.exists():
        file.rename(file.with_name(f"{file.name}~"))
    file.write_bytes(data)


def in_a_new_directory(file: Path, data: bytes) -> None:
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    file.write_bytes(data)


def swapped_directory(file: Path, data: bytes) -> None:
    fresh = file.parent.with_name("fresh")
    fresh.mkdir()
    (fresh / file.name).write_bytes(data)
    file.parent.rename(file.parent.with_name("stale"))
    fresh.rename(file.parent)
    shutil.rmtree(file.parent.with_name("stale"))


WAYS = (
    in_place,
    renamed_over,
    deleted_and_made,
    moved_away_and_made,
    in_a_new_directory,
    swapped_directory,
)


@pytest.mark.parametrize("save", WAYS)
async def test_every_way_of_saving_is_seen_again_and_again(
    tree: Tree, tmp_path: Path, save: Callable[[Path, bytes], None]
) -> None:
    hmr = await tree.watch(sources=False)
    (tmp_path / "conf").mkdir()
    refreshed = Refreshed(tree, tmp_path / "conf" / "c.yml")
    hmr.watch_file(refreshed.file, refreshed)
    await hmr.ready()
    for text in ("one", "two", "three"):
        save(refreshed.file, text.encode())
        await refreshed.last(text)


async def test_a_touch_without_a_change_refreshes_nothing(watching) -> None:
    hmr, refreshed, _ = watching
    refreshed.file.parent.mkdir(parents=True)
    refreshed.file.write_text("one")
    await refreshed.last("one")
    count = len(refreshed.texts)
    os.utime(refreshed.file)
    refreshed.file.write_text("one")
    other = Refreshed(refreshed.tree, refreshed.file.with_name("other.yml"))
    hmr.watch_file(other.file, other)
    other.file.write_text("seen")
    await other.last("seen")
    await hmr.ready()
    assert len(refreshed.texts) <= count + 1  # a write in place may be met half done, as empty
    assert refreshed.texts[-1] == "one"


async def test_bytes_that_are_no_text_and_a_directory_in_its_place_are_changes_like_others(
    watching,
) -> None:
    _, refreshed, _ = watching
    refreshed.file.parent.mkdir(parents=True)
    refreshed.file.write_bytes(b"\xff\xfe\x00")
    await refreshed.last("\ufffd\ufffd\x00")
    refreshed.file.unlink()
    refreshed.file.mkdir()
    await refreshed.last(None)
    refreshed.file.rmdir()
    os.mkfifo(refreshed.file)
    refreshed.file.unlink()
    refreshed.file.write_text("a file again")
    await refreshed.last("a file again")


async def test_a_registration_ends_with_its_caller(watching, tmp_path: Path) -> None:
    hmr, refreshed, _ = watching
    mine = Refreshed(refreshed.tree, tmp_path / "mine.yml")

    def plugin(ctx: Context, _config: object) -> None:
        from dsh_cordis_hmr import HMR

        ctx[HMR].watch_file(mine.file, mine)

    from dsh_cordis_hmr import HMR

    plugin.inject = (HMR,)
    fiber = await refreshed.tree.root.plugin(plugin)
    await hmr.ready()
    mine.file.write_text("one")
    await mine.last("one")
    await fiber.dispose()
    mine.file.write_text("two")
    await hmr.ready()
    hmr.watch_file(mine.file, mine)
    await mine.last("two")
    assert mine.texts == ["one", "two"]


async def test_a_refresh_may_end_its_own_registration(watching) -> None:
    hmr, refreshed, _ = watching
    ended: list[bool] = []

    async def once() -> None:
        await own()
        ended.append(True)
        refreshed.tree.poke()

    file = refreshed.file.with_name("once.yml")
    own = hmr.watch_file(file, once)
    file.parent.mkdir(parents=True)
    file.write_text("x")
    await refreshed.tree.until(lambda: ended)


async def test_where_the_system_tells_of_no_changes_files_are_looked_at(
    tree: Tree, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    refreshed = Refreshed(tree, tmp_path / "c.yml")
    from dsh_cordis_hmr import HMR, Hmr

    await tree.root.plugin(Hmr, {"debounce_ms": 10})
    hmr = tree.root.get(HMR)
    hmr.watch_file(refreshed.file, refreshed)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        await hmr.ready()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    refreshed.file.write_text("one")
    await refreshed.last("one")
    refreshed.file.write_text("two")
    await refreshed.last("two")
    assert "files are looked at instead" in caplog.text
