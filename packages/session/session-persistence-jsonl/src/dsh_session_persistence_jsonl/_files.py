"""Writes that survive a power cut, or leave what was there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from dsh_session_persistence import SessionPersistenceError

_CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class LogFile(msgspec.Struct):
    """A log that this process is the writer of."""

    path: Path
    size: int | None = None
    """Bytes that are durable; None before the log was read or made."""
    unclean: bool = False
    """Whether a failed write may have left something after them."""


def make_directories(path: Path) -> None:
    """Make `path` for its owner only, and make it durable that it is there."""
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable; where directories cannot be synced, they need not be."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create(log: LogFile, content: bytes) -> None:
    """Make the log with its first content, whole or not at all.

    Raises `SESSION_COLLISION` if the name is taken, `OSError` for the rest.
    """
    final = log.path
    temporary = final.with_name(f"{final.name}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, 0o600)
    try:
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # A link and not a rename: it fails where a log is there already.
        os.link(temporary, final)
    except FileExistsError as error:
        raise SessionPersistenceError(
            f"{final} exists already; another session is stored under this id",
            code="SESSION_COLLISION",
        ) from error
    finally:
        _unlink(temporary)
    sync_directory(final.parent)
    log.size = len(content)


def append(log: LogFile, content: bytes) -> None:
    """Add `content`, whole or not at all. Raises `SESSION_CHANGED`, `OSError`."""
    descriptor = os.open(log.path, os.O_RDWR | os.O_APPEND | _CLOEXEC)
    try:
        _check_size(log, descriptor)
        size = log.size
        assert size is not None
        log.unclean = True
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        except OSError as error:
            try:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            except OSError as second:
                error.add_note(f"taking the partial write back failed too: {second}")
                raise
            log.unclean = False
            raise
        log.size = size + len(content)
        log.unclean = False
    finally:
        os.close(descriptor)


def truncate(log: LogFile, size: int) -> None:
    """Cut off everything from `size` on. Raises `SESSION_CHANGED`, `OSError`."""
    descriptor = os.open(log.path, os.O_RDWR | _CLOEXEC)
    try:
        _check_size(log, descriptor)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
        log.size = size
    finally:
        os.close(descriptor)


def _check_size(log: LogFile, descriptor: int) -> None:
    found = os.fstat(descriptor).st_size
    if log.size is None:
        log.size = found
    if found == log.size:
        return
    if log.unclean and found > log.size:
        os.ftruncate(descriptor, log.size)
        return
    raise SessionPersistenceError(
        f"{log.path} was changed by another program: it should have {log.size} bytes and has "
        f"{found}; nothing was written",
        code="SESSION_CHANGED",
    )


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        # It is never looked at again, and the log itself is in place.
        return
