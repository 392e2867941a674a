"""Edits in quick succession, of layers and of plugins, through a real profile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Live

pytestmark = pytest.mark.anyio

FAST = "- {id: hmr, config: {debounceMs: 5}}\n"


def layer(value: int) -> str:
    return f"{FAST}- insert: [{{id: note, name: ./note.py, config: {value}}}]\n"


async def test_twenty_edits_of_a_layer_within_a_second_end_in_the_last(live: Live) -> None:
    live.plugin("note.py", "n")
    live.write(live.patch, layer(0))
    async with live.booted():
        before = live.fibers()
        for value in range(1, 21):
            # Every third on the way is broken.
            live.write(live.patch, "- insert: [" if value % 3 == 0 else layer(value))
            await asyncio.sleep(0.01)
        await live.until(lambda: ("up", "n", 20) in live.journal)
        await live.loader.settled()
        check(live, ("up", "n", 20))
        assert live.fibers() == before


async def test_twenty_edits_of_a_plugin_within_a_second_end_in_the_last(live: Live) -> None:
    live.plugin("note.py", 0)
    live.write(live.patch, layer(0))
    async with live.booted():
        before = live.fibers()
        for value in range(1, 21):
            if value % 3 == 0:
                live.write(live.profile / "note.py", "def apply(")
            else:
                live.plugin("note.py", value)
            await asyncio.sleep(0.01)
        await live.until(lambda: ("up", 20, 0) in live.journal)
        await live.loader.settled()
        check(live, ("up", 20, 0))
        after = live.fibers()
        assert after.pop("note") is not before.pop("note")
        assert after == before


async def test_twenty_edits_of_both_within_a_second_end_in_the_last_of_both(live: Live) -> None:
    live.plugin("note.py", 0)
    live.plugin("late.py", 0)
    live.write(live.patch, layer(0))
    late = "- insert: [{id: late, name: ./late.py}]\n"
    async with live.booted():
        for value in range(1, 21):
            live.plugin("note.py", value)
            live.plugin("late.py", value)
            # A row comes and goes while its source is edited.
            live.write(live.patch, layer(value) + late * (value % 2 == 0))
            await asyncio.sleep(0.01)
        await live.until(
            lambda: ("up", 20, 20) in live.journal and ("up", 20, None) in live.journal
        )
        await live.loader.settled()
        running = [one[1:] for one in live.journal if one[0] == "up"]
        for one in (one[1:] for one in live.journal if one[0] == "down"):
            running.remove(one)
        assert sorted(running, key=str) == [(20, 20), (20, None)]
        assert not live.failures


def check(live: Live, last: tuple[object, ...]) -> None:
    """One instance at a time ran, the last one is the wanted one."""
    assert live.journal[-1] == last
    kinds = [one[0] for one in live.journal]
    assert kinds == ["up", *["down", "up"] * (len(kinds) // 2)]
    for up, down in zip(live.journal[::2], live.journal[1::2], strict=False):
        assert up[1:] == down[1:]
