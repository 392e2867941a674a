"""A local file system on a real kernel, rooted in a temporary directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from dsh_cordis import Context
from dsh_fs import FS, FileSystem, FileTarget
from dsh_fs_local import LocalFileSystem


@dataclass
class Place:
    """The service, a directory, and a short way to name files in it."""

    files: FileSystem
    root: Path

    async def target(self, path: str) -> FileTarget:
        return await self.files.resolve(path, cwd=str(self.root))

    def leftovers(self) -> list[str]:
        return [p.name for p in self.root.rglob(".dsh-*")]


@pytest.fixture
async def place(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    root = tmp_path / "files"
    root.mkdir()
    async with Context() as ctx:
        await ctx.plugin(LocalFileSystem, {"cwd": str(root)})
        files = ctx.get(FS)
        assert files is not None
        yield Place(files, root)
        assert list(root.rglob(".dsh-*")) == []
