"""Files of this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from dsh_cordis import AbortSignal, Context
from dsh_fs import (
    DirectoryEntry,
    EditResult,
    Expected,
    FileStat,
    FileSystem,
    FileTarget,
    FsError,
    ReplaceIfVersion,
    TextEdit,
    TextRead,
    WriteResult,
)
from msgspec import Meta

from ._change import edit_text, write_text
from ._list import list_directory
from ._paths import resolve, stat_path
from ._read import read_bytes, read_text, text_pieces
from ._threads import in_thread


class FsLocalConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where relative paths start and how much is compared."""

    cwd: Annotated[
        str,
        Meta(
            description="Base of relative paths where a caller names none; confines nothing."
            " Empty: the process's."
        ),
    ] = ""
    diff_basis_max_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Changes of files of this size and larger come without `before`,"
            " edits also without `after`.",
        ),
    ] = 10_485_760


class LocalFileSystem(FileSystem):
    """Real files. Blocking work runs in threads; changes of one file happen one by one."""

    Config = FsLocalConfig
    name = "dsh-fs-local"

    def __init__(self, ctx: Context, config: FsLocalConfig) -> None:
        super().__init__(ctx, config)
        self._config = config
        self._changing: dict[str, _Turnstile] = {}

    async def resolve(
        self, path: str, *, cwd: str | None = None, signal: AbortSignal | None = None
    ) -> FileTarget:
        _check(signal)
        return await in_thread(lambda: resolve(path, self._base(cwd)))

    def process_path(self, target: FileTarget) -> str:
        return target.key

    def file_url(self, target: FileTarget) -> str:
        return Path(target.key).as_uri()

    def contains(self, parent: FileTarget, child: FileTarget) -> bool:
        return Path(child.key).is_relative_to(parent.key)

    async def stat(
        self, target: FileTarget, *, signal: AbortSignal | None = None
    ) -> FileStat | None:
        _check(signal)
        return await in_thread(lambda: stat_path(target.key, follow=True))

    async def lstat(self, path: str, *, cwd: str | None = None) -> FileStat | None:
        return await in_thread(lambda: stat_path(os.path.join(self._base(cwd), path), follow=False))

    async def read_text(self, target: FileTarget, *, signal: AbortSignal | None = None) -> TextRead:
        return await in_thread(lambda: read_text(target.key, lambda: _check(signal)))

    async def stream_text(
        self, target: FileTarget, *, signal: AbortSignal | None = None
    ) -> AsyncGenerator[str]:
        _check(signal)
        pieces = text_pieces(target.key)
        try:
            while (piece := await in_thread(lambda: next(pieces, None))) is not None:
                yield piece
                _check(signal)
        finally:
            pieces.close()

    async def read_bytes(
        self, target: FileTarget, *, max_bytes: int, signal: AbortSignal | None = None
    ) -> bytes:
        return await in_thread(lambda: read_bytes(target.key, max_bytes, lambda: _check(signal)))

    async def list_dir(
        self, target: FileTarget, *, signal: AbortSignal | None = None
    ) -> tuple[DirectoryEntry, ...]:
        _check(signal)
        return await in_thread(lambda: list_directory(target))

    async def write_text(
        self,
        target: FileTarget,
        content: str,
        *,
        expected: Expected | None = None,
        signal: AbortSignal | None = None,
    ) -> WriteResult:
        _check(signal)
        async with self._turn(target):
            return await in_thread(
                lambda: write_text(
                    target.key,
                    content,
                    expected=expected,
                    basis_max_bytes=self._config.diff_basis_max_bytes,
                    check_abort=lambda: _check(signal),
                )
            )

    async def edit_text(
        self,
        target: FileTarget,
        edit: TextEdit,
        *,
        expected: ReplaceIfVersion | None = None,
        signal: AbortSignal | None = None,
    ) -> EditResult:
        _check(signal)
        async with self._turn(target):
            return await in_thread(
                lambda: edit_text(
                    target.key,
                    edit,
                    expected=expected,
                    basis_max_bytes=self._config.diff_basis_max_bytes,
                    check_abort=lambda: _check(signal),
                )
            )

    def _base(self, cwd: str | None) -> str:
        return cwd or self._config.cwd or os.getcwd()

    @asynccontextmanager
    async def _turn(self, target: FileTarget) -> AsyncGenerator[None]:
        """First come, first served for each file; a turnstile lives while somebody needs it."""
        turnstile = self._changing.setdefault(target.key, _Turnstile())
        turnstile.wanted += 1
        try:
            async with turnstile.lock:
                yield
        finally:
            turnstile.wanted -= 1
            if not turnstile.wanted:
                self._changing.pop(target.key, None)


class _Turnstile:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0


def _check(signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        raise FsError(
            "the file operation was cancelled before it changed anything", code="FS_ABORTED"
        )
