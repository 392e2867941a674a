"""A tree with the local bash."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import Context
from dsh_shell import SHELL, ShellRequest, ShellResult
from dsh_subprocess_local import LocalSubprocess

Run = Callable[..., Awaitable[ShellResult]]


@pytest.fixture(autouse=True)
def temporary_files(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spilled output goes where tests clean up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("spills")))


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Context]:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        await root.plugin(BashLocal, {"cwd": str(tmp_path), "graceMs": 200})
        yield root


@pytest.fixture
def run(root: Context) -> Run:
    """Run a command to its end."""

    async def run(command: str, **request: Any) -> ShellResult:
        shell = root[SHELL]
        return await shell.run(shell.resolve(ShellRequest(command=command, **request)))

    return run


@pytest.fixture
def runs() -> Callable[[int], bool]:
    """Whether a process runs; one that only waits to be reaped does not."""

    def check(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rsplit(") ", 1)[1][0] not in "ZX"

    return check


@pytest.fixture
def children() -> Callable[[], list[int]]:
    """The children of this process, zombies included."""

    def find() -> list[int]:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                parent = Path(f"/proc/{name}/stat").read_text().rsplit(") ", 1)[1].split()[1]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == os.getpid():
                found.append(int(name))
        return found

    return find
