"""The service: one world of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from dsh_cordis import AbortSignal, Service, ServiceKey

from ._records import (
    DirectoryEntry,
    EditResult,
    Expected,
    FileStat,
    FileTarget,
    ReplaceIfVersion,
    TextEdit,
    TextRead,
    WriteResult,
)

FS = ServiceKey["FileSystem"]("fs")


class FileSystem(Service, ABC):
    """Reads and changes files. Every method raises `FsError`; an aborted signal is `FS_ABORTED`.

    There are no timeouts. After a change is published no cancellation is reported.
    """

    provides = FS

    @abstractmethod
    async def resolve(
        self, path: str, *, cwd: str | None = None, signal: AbortSignal | None = None
    ) -> FileTarget:
        """The file that `path` names, existing or not; relative to `cwd`.

        Names of one file resolve to one key. A blank path is `FS_NOT_FOUND`.
        """

    @abstractmethod
    def process_path(self, target: FileTarget) -> str:
        """The path under which processes of the same world find the file."""

    @abstractmethod
    def file_url(self, target: FileTarget) -> str:
        """The file's `file:` URL."""

    @abstractmethod
    def contains(self, parent: FileTarget, child: FileTarget) -> bool:
        """Whether `child` is `parent` or below it."""

    @abstractmethod
    async def stat(
        self, target: FileTarget, *, signal: AbortSignal | None = None
    ) -> FileStat | None:
        """None if nothing is there. Links are followed."""

    @abstractmethod
    async def lstat(self, path: str, *, cwd: str | None = None) -> FileStat | None:
        """As `stat`, of a link itself."""

    @abstractmethod
    async def read_text(self, target: FileTarget, *, signal: AbortSignal | None = None) -> TextRead:
        """The whole file. Not UTF-8, or a NUL near its start: `FS_NOT_TEXT`."""

    @abstractmethod
    def stream_text(
        self, target: FileTarget, *, signal: AbortSignal | None = None
    ) -> AsyncIterator[str]:
        """The file's text in pieces, under the rules of `read_text`."""

    @abstractmethod
    async def read_bytes(
        self, target: FileTarget, *, max_bytes: int, signal: AbortSignal | None = None
    ) -> bytes:
        """The whole file; never cut: a longer one is `FS_TOO_LARGE`."""

    @abstractmethod
    async def list_dir(
        self, target: FileTarget, *, signal: AbortSignal | None = None
    ) -> tuple[DirectoryEntry, ...]:
        """The children in the order of their names."""

    @abstractmethod
    async def write_text(
        self,
        target: FileTarget,
        content: str,
        *,
        expected: Expected | None = None,
        signal: AbortSignal | None = None,
    ) -> WriteResult:
        """Put exactly `content` there, atomically; parents are made, an existing mode is kept.

        Something else than expected: `FS_STALE_VERSION` or `FS_NOT_OBSERVED`.
        """

    @abstractmethod
    async def edit_text(
        self,
        target: FileTarget,
        edit: TextEdit,
        *,
        expected: ReplaceIfVersion | None = None,
        signal: AbortSignal | None = None,
    ) -> EditResult:
        """Replace text, atomically; byte order mark, line endings and mode are kept."""
