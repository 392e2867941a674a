"""Files of rows that a row includes, edited while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dsh_cordis_hmr import HMR

if TYPE_CHECKING:
    from conftest import Live

pytestmark = pytest.mark.anyio


def included(value: int) -> str:
    return f"- {{id: note, name: ./note.py, config: {value}}}\n"


async def test_an_edit_of_an_included_file_changes_its_rows_and_a_bad_one_nothing(
    live: Live,
) -> None:
    live.plugin("note.py", "n")
    file = live.profile / "more.yml"
    live.write(file, included(1))
    live.write(
        live.patch,
        "- {id: hmr, disabled: true}\n"
        "- insert: [{id: more, name: 'cordis:include', config: {path: more.yml}}]\n",
    )
    async with live.booted():
        before = live.fibers()
        live.write(file, included(2))
        await live.until(lambda: ("up", "n", 2) in live.journal)
        live.write(file, "nothing: good\n")
        await live.until(lambda: live.failures)
        assert live.failures[0].file == file
        assert live.fibers() == before
        file.unlink()
        await live.until(lambda: len(live.failures) == 2)
        live.write(file, included(3))
        await live.until(lambda: ("up", "n", 3) in live.journal)
        assert live.fibers() == before


async def test_an_included_file_may_change_the_row_of_the_reload_service_that_watches_it(
    live: Live,
) -> None:
    live.plugin("note.py", "n")
    file = live.profile / "more.yml"
    hmr = "- {{id: own, name: dsh-cordis-hmr, config: {{debounceMs: {0}}}}}\n"
    live.write(file, hmr.format(10) + included(1))
    live.write(
        live.patch,
        "- {id: hmr, disabled: true}\n"
        "- insert: [{id: more, name: 'cordis:include', config: {path: more.yml}}]\n",
    )
    async with live.booted(watched=False) as root:
        first = root.get(HMR)
        live.write(file, hmr.format(11) + included(2))
        await live.until(lambda: ("up", "n", 2) in live.journal)
        assert root.get(HMR) is not None
        assert root.get(HMR) is not first
        await root.get(HMR).ready()
        live.write(file, included(3))
        await live.until(lambda: ("up", "n", 3) in live.journal)
        assert root.get(HMR) is None


async def test_an_include_that_is_removed_is_watched_no_more(live: Live) -> None:
    live.plugin("note.py", "n")
    file = live.profile / "more.yml"
    live.write(file, included(1))
    include = "- insert: [{id: more, name: 'cordis:include', config: {path: more.yml}}]\n"
    live.write(live.patch, "- {id: hmr, config: {debounceMs: 10}}\n" + include)
    async with live.booted() as root:
        live.write(live.patch, "- {id: hmr, config: {debounceMs: 10}}\n")
        await live.until(lambda: ("down", "n", 1) in live.journal)
        await root.get(HMR).ready()
        live.write(file, "bad: now\n")
        live.write(live.patch, "- {id: hmr, config: {debounceMs: 10}}\n# still\n")
        await root.get(HMR).ready()
        live.write(file, included(4))
        live.write(live.patch, "- {id: hmr, config: {debounceMs: 10}}\n" + include)
        await live.until(lambda: ("up", "n", 4) in live.journal)
        assert not live.failures
