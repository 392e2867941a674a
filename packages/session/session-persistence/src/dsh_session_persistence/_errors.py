"""What this package and its backends raise."""

from __future__ import annotations

import errno
from typing import Final

from dsh_cordis import CordisError


class SessionPersistenceError(CordisError):
    """A stored session could not be read or written; `code` says why."""


class SessionFormatUnsupportedError(SessionPersistenceError):
    """The log is sound, but this version cannot read it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="SESSION_FORMAT_UNSUPPORTED")


class SessionPersistenceCorruptionError(SessionPersistenceError):
    """The log is damaged. It is left as it is; `inspect` shows what stands before the damage."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="SESSION_CORRUPT")


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def storage_error(doing: str, error: OSError, *, reading: bool = False) -> SessionPersistenceError:
    """A failure of the storage itself, in words; `doing` completes "cannot …"."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return SessionPersistenceError(
            f"cannot {doing}: {reason}; free some space, nothing stored is lost",
            code="STORAGE_FULL",
        )
    if error.errno in _READ_ONLY and not reading:
        return SessionPersistenceError(
            f"cannot {doing}: {reason}; make it writable, stored sessions stay readable",
            code="STORAGE_READ_ONLY",
        )
    return SessionPersistenceError(f"cannot {doing}: {reason}", code="STORAGE_FAILED")
