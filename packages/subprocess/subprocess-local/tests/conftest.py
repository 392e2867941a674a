"""A tree with the local provider, and a look at what runs on this machine."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Context
from dsh_subprocess import SUBPROCESS, Collect, ProcessHandle, SpawnSpec
from dsh_subprocess_local import LocalSubprocess

KEEP = Collect(max_bytes=64_000)


@pytest.fixture(autouse=True)
def temporary_files(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spilled output goes where tests clean up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("spills")))


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        yield root


@pytest.fixture
def spawn(root: Context, tmp_path: Path) -> Callable[..., ProcessHandle]:
    """Start `bash -c script`, or `argv`, collecting both streams unless told otherwise."""

    def start(script: str = "", **changes: Any) -> ProcessHandle:
        fields: dict[str, Any] = {
            "argv": ("bash", "-c", script),
            "cwd": str(tmp_path),
            "stdin": "ignore",
            "stdout": KEEP,
            "stderr": KEEP,
            "grace_ms": 200,
        }
        return root[SUBPROCESS].spawn(SpawnSpec(**(fields | changes)))

    return start


@pytest.fixture
def text() -> Callable[[ProcessHandle], str]:
    def read(handle: ProcessHandle) -> str:
        assert handle.collected_stdout is not None
        return handle.collected_stdout.read_from(0).text

    return read


@pytest.fixture
def line() -> Callable[[ProcessHandle], Any]:
    """The next line that a child wrote to its raw stdout."""

    async def read(handle: ProcessHandle) -> str:
        await handle.opened()
        assert handle.stdout is not None
        async with asyncio.timeout(10):
            return (await handle.stdout.readline()).decode().rstrip("\n")

    return read


def stat_of(pid: int) -> list[str] | None:
    """State, parent, group, session, ... of a process; None if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.fixture
def runs() -> Callable[[int], bool]:
    """Whether a process runs; one that only waits to be reaped does not."""

    def check(pid: int) -> bool:
        stat = stat_of(pid)
        return stat is not None and stat[0] not in "ZX"

    return check


@pytest.fixture
def children() -> Callable[[], list[int]]:
    """The children of this process, zombies included."""

    def find() -> list[int]:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        stats = {pid: stat_of(pid) for pid in pids}
        return [pid for pid, stat in stats.items() if stat and int(stat[1]) == os.getpid()]

    return find


@pytest.fixture
def descriptors() -> Callable[[], list[str]]:
    """What the open descriptors of this process lead to."""

    def find() -> list[str]:
        links = []
        for name in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{name}"))
            except FileNotFoundError:  # the listing's own
                continue
        return sorted(link for link in links if link.startswith(("pipe:", "anon_inode:[pidfd]")))

    return find
