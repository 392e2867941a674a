"""Sessions as compressed JSONL files below one directory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar, TypeVarTuple

import msgspec
from dsh_cordis import ConfigError, Finding
from dsh_session import SESSIONS, AnyEvent, SessionEventTypes, SessionHeader
from dsh_session_persistence import (
    PersistenceOptions,
    RawArtifact,
    SessionBackend,
    SessionPersistence,
    StoredLocation,
    StoredLog,
    encode_records,
    storage_error,
)

from ._artifact import Artifact, Torn, read_artifact, read_header
from ._files import LogFile, append, create, make_directories, truncate
from ._frames import compress
from ._header import encode_header
from ._layout import LOCK_NAME, RAW_NAME, ZSTD_NAME, artifact_path
from ._lock import acquire
from ._lookup import check_identity, find_artifact, list_headers, refuse_other_layout, survey

if TYPE_CHECKING:
    from dsh_cordis import Context

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_THREADS: Final = 4
_SURVEYED: Final = 5000
"""How many sessions a look at the root opens at most."""
_NAMED: Final = 10
"""How many unreadable ones it names."""


class JsonlConfig(PersistenceOptions, frozen=True, rename="camel", kw_only=True):
    """Configuration of the JSONL storage."""

    root: Annotated[
        str,
        msgspec.Meta(
            min_length=1, description="Directory of all sessions; made when the first is stored."
        ),
    ]
    pack_chunks: Annotated[
        bool, msgspec.Meta(description="Store runs of stream deltas as rows; reading takes both.")
    ] = True
    compression: Annotated[
        Literal["zstd", "none"], msgspec.Meta(description="Form of the logs below this root.")
    ] = "zstd"


class _Writer(msgspec.Struct):
    """What this process holds of a session that it writes."""

    file: LogFile
    lock: int

    def release(self) -> None:
        lock, self.lock = self.lock, -1
        if lock >= 0:
            os.close(lock)


class JsonlBackend(SessionBackend):
    """One directory for each session, one file in it that only grows."""

    name = "JSONL"
    supports_raw_artifacts = True

    def __init__(self, config: JsonlConfig, types: SessionEventTypes) -> None:
        """Raises `ConfigError` if the root is there and is no readable directory."""
        self._root = Path(config.root).absolute()
        if not _readable_or_absent(self._root):
            raise ConfigError(f"root {str(self._root)!r} is not a readable directory")
        self._zstd = config.compression == "zstd"
        self._file_name = ZSTD_NAME if self._zstd else RAW_NAME
        self._pack = config.pack_chunks
        self._types = types
        self._writers: dict[str, _Writer] = {}
        # Its own: what else runs in the loop's threads must not keep a checkpoint waiting.
        self._threads = ThreadPoolExecutor(_THREADS, "dsh-sessions")

    def locate(self, header: SessionHeader) -> StoredLocation:
        """The session's file."""
        return StoredLocation("file", str(self._path(header)))

    async def find(self, session_id: str) -> SessionHeader | None:
        """The stored header, after checking that it stands where it belongs."""
        return await self._in_thread(self._find, session_id)

    async def load_stored(self, session_id: str) -> StoredLog | None:
        """The whole log."""
        artifact = await self._in_thread(self._load, session_id)
        return None if artifact is None else artifact.log

    async def lock(self, header: SessionHeader) -> Callable[[], None]:
        """Hold `session.lock` in the session's directory."""
        return await self._in_thread(self._lock, header)

    async def append_batch(
        self, header: SessionHeader, events: Sequence[AnyEvent], *, materialized: bool
    ) -> None:
        """One more frame; the first together with the header and the file."""
        await self._in_thread(self._append if materialized else self._create, header, events)

    async def commit_repair(
        self, header: SessionHeader, torn: object | None, closers: Sequence[AnyEvent]
    ) -> None:
        """Cut the file where its torn end begins, then append what is kept of that and closers."""
        assert torn is None or isinstance(torn, Torn)
        await self._in_thread(self._repair, header, torn, closers)

    async def list(self) -> tuple[SessionHeader, ...]:
        """The headers of all logs below the root."""
        return await self._in_thread(self._list)

    async def read_raw(self, session_id: str) -> RawArtifact | None:
        """The decompressed log, byte for byte, without a torn end."""
        artifact = await self._in_thread(self._load, session_id)
        if artifact is None:
            return None
        return RawArtifact(artifact.log.header, RAW_NAME, artifact.text)

    async def close(self) -> None:
        """Release every lock."""
        self._threads.shutdown(wait=False)
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.release()

    async def _in_thread(self, call: Callable[[*Ts], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    # -- in a thread ------------------------------------------------------------------------

    def _path(self, header: SessionHeader) -> Path:
        return artifact_path(self._root, header, self._file_name)

    def _find(self, session_id: str) -> SessionHeader | None:
        with _doing(f"look for session {session_id!r} in {self._root}", reading=True):
            path = find_artifact(self._root, session_id, self._file_name)
            if path is None:
                return None
            header = read_header(path)
            check_identity(self._root, path, header, session_id)
            return header

    def _load(self, session_id: str) -> Artifact | None:
        with _doing(f"read session {session_id!r} in {self._root}", reading=True):
            path = find_artifact(self._root, session_id, self._file_name)
            if path is None:
                return None
            artifact = read_artifact(path, self._types)
            check_identity(self._root, path, artifact.log.header, session_id)
        writer = self._writers.get(session_id)
        # Only once, right after the lock was taken: later this process itself is appending.
        if writer is not None and writer.file.size is None:
            writer.file.size = artifact.size
        return artifact

    def _lock(self, header: SessionHeader) -> Callable[[], None]:
        path = self._path(header)
        with _doing(f"open session {header.id!r} for writing in {path.parent}"):
            make_directories(path.parent)
            writer = _Writer(LogFile(path), acquire(path.with_name(LOCK_NAME)))
        self._writers[header.id] = writer

        def release() -> None:
            if self._writers.get(header.id) is writer:
                del self._writers[header.id]
            writer.release()

        return release

    def _append(self, header: SessionHeader, events: Sequence[AnyEvent]) -> None:
        file = self._writers[header.id].file
        with _doing(f"write session {header.id!r} to {file.path}"):
            append(file, self._encode(encode_records(events, pack=self._pack)))

    def _create(self, header: SessionHeader, events: Sequence[AnyEvent]) -> None:
        file = self._writers[header.id].file
        directory = file.path.parent
        content = self._encode(encode_header(header))
        content += self._encode(encode_records(events, pack=self._pack))
        with _doing(f"store session {header.id!r} in {file.path}"):
            refuse_other_layout(directory.parent, directory.name, self._file_name)
            create(file, content)

    def _repair(
        self, header: SessionHeader, torn: Torn | None, closers: Sequence[AnyEvent]
    ) -> None:
        file = self._writers[header.id].file
        with _doing(f"repair session {header.id!r} in {file.path}"):
            events = tuple(closers)
            if torn is not None:
                truncate(file, torn.offset)
                events = (*torn.kept, *closers)
            if events:
                append(file, self._encode(encode_records(events, pack=self._pack)))

    def _list(self) -> tuple[SessionHeader, ...]:
        with _doing(f"list the sessions in {self._root}", reading=True):
            return tuple(list_headers(self._root, self._file_name))

    def _encode(self, lines: bytes) -> bytes:
        return compress(lines) if self._zstd else lines


class JsonlSessionPersistence(SessionPersistence):
    """Session persistence in files: `<root>/<project>/<session>/session.jsonl.zstd`."""

    name = "dsh-session-persistence-jsonl"
    Config = JsonlConfig

    def __init__(self, ctx: Context, config: JsonlConfig) -> None:
        super().__init__(ctx, config, JsonlBackend(config, ctx[SESSIONS].types))
        self._root = Path(config.root).absolute()
        self._file_name = ZSTD_NAME if config.compression == "zstd" else RAW_NAME

    async def diagnose(self) -> AsyncIterator[Finding]:
        """What cannot be stored or read; of each session only the header is read."""
        existing = next(path for path in (self._root, *self._root.parents) if path.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            mend = "make it a directory that can be written, or set another root"
            yield Finding("error", "sessions", f"{existing} cannot hold any", mend)
        if existing.is_dir():
            async for finding in self._surveyed():
                yield finding

    async def _surveyed(self) -> AsyncIterator[Finding]:
        readable = broken = 0
        for found in islice(survey(self._root, self._file_name), _SURVEYED):
            # What asks may want to give up: thousands of files on a slow disk take a while.
            await asyncio.sleep(0)
            if not isinstance(found, str):
                readable += 1
                continue
            broken += 1
            if broken <= _NAMED:
                yield Finding("error", "sessions", found, "move it out of the way, or restore it")
        if broken > _NAMED:
            yield Finding("error", "sessions", f"{broken - _NAMED} more cannot be read")
        full = readable + broken == _SURVEYED
        of = f" of the {_SURVEYED} that were looked at" if full else ""
        yield Finding("ok", "sessions", f"{readable}{of} can be read below {self._root}")


def _readable_or_absent(root: Path) -> bool:
    try:
        root.stat()
    except (FileNotFoundError, NotADirectoryError):
        # Below a file it cannot be made either; the first write says so.
        return True
    except OSError:
        return False
    return root.is_dir() and os.access(root, os.R_OK)


@contextmanager
def _doing(what: str, *, reading: bool = False) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(what, error, reading=reading) from error
