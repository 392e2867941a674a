"""Finds what a composition leaves behind."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dsh_cordis import EffectInfo, Fiber

_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Census:
    """What lives in this process, by a name that a person can look for."""

    tasks: Counter[str]
    fibers: Counter[str]
    effects: Counter[str]
    descriptors: Counter[str]
    children: Counter[str]

    def leaks(self, before: _Census) -> list[str]:
        """What is here and was not there before."""
        found: list[str] = []
        for kind in ("tasks", "fibers", "effects", "descriptors", "children"):
            surplus: Counter[str] = getattr(self, kind) - getattr(before, kind)
            found += (f"{kind}: {name} (x{count})" for name, count in surplus.items())
        return found


@asynccontextmanager
async def assert_no_leaks(*, within_s: float = 2.0) -> AsyncGenerator[None]:
    """Fail with `AssertionError` if the block leaves something behind, naming each of it.

    Looks at asyncio tasks, live fibers and their effects (listeners, services, registrations), open
    descriptors and child processes of this process. What ends by itself within `within_s` seconds
    is no leak. A block that raises is not checked.
    """
    before = _census()
    yield
    deadline = time.monotonic() + within_s
    while leaks := _census().leaks(before):
        if time.monotonic() >= deadline:
            raise AssertionError("left behind:\n  " + "\n  ".join(leaks))
        await asyncio.sleep(_PAUSE_S)


def _census() -> _Census:
    gc.collect()
    fibers = [one for one in gc.get_objects() if isinstance(one, Fiber) and one.uid is not None]
    effects = (
        f"{label} of {fiber.name}" for fiber in fibers for label in _labels(fiber.get_effects())
    )
    return _Census(
        Counter(task.get_name() for task in asyncio.all_tasks() if not task.done()),
        # Roots stay usable after their disposal, so an empty one is no leak.
        Counter(fiber.name for fiber in fibers if fiber.parent is not None),
        Counter(effects),
        Counter(_descriptors()),
        Counter(_children()),
    )


def _labels(effects: Iterable[EffectInfo]) -> Iterable[str]:
    for effect in effects:
        yield effect.label
        yield from _labels(effect.children)


def _descriptors() -> Iterable[str]:
    for entry in os.scandir("/proc/self/fd"):
        try:
            yield os.readlink(entry.path)
        except FileNotFoundError:  # the one that this scan itself opened
            continue


def _children() -> Iterable[str]:
    me = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent_of(entry) == me:
            yield entry.name


def _parent_of(process: Path) -> int | None:
    try:
        # The name may hold spaces and brackets; the last ")" ends it.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1])
