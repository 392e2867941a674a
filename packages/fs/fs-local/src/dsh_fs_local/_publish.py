"""Atomic publication: the new content is complete on disk before it has the name."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import msgspec
from dsh_fs import FsError

from ._faults import fs_errors
from ._read import not_regular

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})


def replace(
    path: str,
    data: bytes,
    *,
    prior: os.stat_result | None,
    before_publish: Callable[[], None],
) -> os.stat_result:
    """Give `path` the content `data`, over whatever is there. Blocking.

    An existing file keeps its mode and, where the system allows, its owner; a new one gets the
    umask's. `before_publish` may raise: until then nothing has changed. The result is the status
    of the file that was written, even if another has taken its place already.
    """
    with fs_errors("write", path), _staged(path, data, prior) as staged:
        before_publish()
        os.replace(staged.path, path)
        _sync_directory(path)
        return os.fstat(staged.descriptor)


def create(path: str, data: bytes, *, before_publish: Callable[[], None]) -> os.stat_result:
    """As `replace`, but only if nothing is at `path`. Blocking.

    A hard link publishes, because unlike a rename it fails if somebody was faster.
    """
    with fs_errors("write", path), _staged(path, data, None) as staged:
        before_publish()
        _link(staged.path, path)
        _sync_directory(path)
        # Before the status is read: losing a name changes a file's change time.
        staged.discard()
        return os.fstat(staged.descriptor)


def _link(staged: str, path: str) -> None:
    try:
        os.link(staged, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        message = (
            f"cannot create {path!r}: its filesystem has no hard links, without which a file that "
            "somebody else creates meanwhile could be lost"
        )
        raise FsError(message, code="FS_IO_ERROR") from error


def _exists(path: str) -> FsError:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        return not_regular(path, status)
    return FsError(f"{path!r} exists already and was not read", code="FS_NOT_OBSERVED")


class _Staged(msgspec.Struct, frozen=True):
    """A complete, synced file under a name of its own; the descriptor is open."""

    path: str
    descriptor: int

    def discard(self) -> None:
        """Drop the name. Leftovers must never fail a write that is already published."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)


@contextmanager
def _staged(path: str, data: bytes, prior: os.stat_result | None) -> Generator[_Staged]:
    """A file with `data` beside `path`, gone at the end unless it was renamed."""
    directory = os.path.dirname(path)
    _make_directories(directory)
    name = f"{directory}/.dsh-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    staged = _Staged(name, descriptor)
    try:
        # The mode first, so that what only its owner may read is never there for others.
        if prior is not None:
            _take_over(descriptor, prior)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
        yield staged
    finally:
        os.close(descriptor)
        staged.discard()


def _make_directories(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except FileExistsError as error:  # a file where a directory has to be
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error


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
