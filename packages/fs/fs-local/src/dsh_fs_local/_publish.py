"""Atomic publication: the new content is complete on disk before it has the name."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dsh_fs import FsError

from ._faults import fs_errors
from ._read import not_regular


def replace(
    path: str,
    data: bytes,
    *,
    prior: os.stat_result | None,
    before_publish: Callable[[], None],
) -> os.stat_result:
    """Give `path` the content `data`, over whatever is there. Blocking.

    An existing file keeps its mode and, where the system allows, its owner; a new one gets the
    umask's. `before_publish` may raise: until then nothing has changed.
    """
    with fs_errors("write", path), _staged(path, data, prior) as staged:
        before_publish()
        os.replace(staged, path)
        _sync_directory(path)
        return os.stat(path)


def create(path: str, data: bytes, *, before_publish: Callable[[], None]) -> os.stat_result:
    """As `replace`, but only if nothing is at `path`. Blocking.

    A hard link publishes, because unlike a rename it fails if somebody was faster.
    """
    with fs_errors("write", path), _staged(path, data, None) as staged:
        before_publish()
        try:
            os.link(staged, path)
        except FileExistsError:
            raise _exists(path) from None
        _sync_directory(path)
        return os.stat(path)


def _exists(path: str) -> FsError:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        return not_regular(path, status)
    return FsError(
        f"{path!r} exists and was not read; read it before writing over it", code="FS_NOT_OBSERVED"
    )


@contextmanager
def _staged(path: str, data: bytes, prior: os.stat_result | None) -> Iterator[str]:
    """A complete, synced file beside `path`, removed if it still has its own name at the end."""
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    staged = f"{directory}/.dsh-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            if prior is not None:
                _take_over(file.fileno(), prior)
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            os.fsync(file.fileno())
        yield staged
    finally:
        # Leftovers must never fail a write that is already published.
        with contextlib.suppress(OSError):
            os.unlink(staged)


def _take_over(descriptor: int, prior: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (prior.st_uid, prior.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away
            os.fchown(descriptor, prior.st_uid, prior.st_gid)
    # After the owner, because changing that clears the set-id bits.
    os.fchmod(descriptor, stat.S_IMODE(prior.st_mode))


def _sync_directory(path: str) -> None:
    with contextlib.suppress(OSError):  # some filesystems cannot
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
