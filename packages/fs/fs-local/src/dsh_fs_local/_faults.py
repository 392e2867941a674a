"""Failures of the operating system, in the words of the file service."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from dsh_fs import FsError, FsErrorCode

_CODES: Final[dict[int, FsErrorCode]] = {
    errno.ENOENT: "FS_NOT_FOUND",
    errno.ENOTDIR: "FS_NOT_FOUND",
    errno.EACCES: "FS_PERMISSION_DENIED",
    errno.EPERM: "FS_PERMISSION_DENIED",
    errno.EROFS: "FS_PERMISSION_DENIED",
    errno.EISDIR: "FS_NOT_REGULAR_FILE",
    errno.ENXIO: "FS_NOT_REGULAR_FILE",  # opening a socket
}


@contextmanager
def fs_errors(action: str, path: str) -> Generator[None]:
    """Turn an `OSError` of the block into an `FsError` that says `cannot <action> <path>`."""
    try:
        yield
    except OSError as error:
        code = _CODES.get(error.errno or 0, "FS_IO_ERROR")
        reason = error.strerror or str(error)
        raise FsError(f"cannot {action} {path!r}: {reason}", code=code) from error
    except ValueError as error:  # a NUL in the path
        raise FsError(f"cannot {action} {path!r}: {error}", code="FS_NOT_FOUND") from error
