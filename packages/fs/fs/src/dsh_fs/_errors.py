"""What file services raise."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dsh_cordis import CordisError

FsErrorCode: TypeAlias = Literal[
    "FS_ABORTED",
    "FS_AMBIGUOUS_EDIT",
    "FS_EDIT_NOT_FOUND",
    "FS_IO_ERROR",
    "FS_NOT_DIRECTORY",
    "FS_NOT_FOUND",
    "FS_NOT_OBSERVED",
    "FS_NOT_REGULAR_FILE",
    "FS_NOT_TEXT",
    "FS_PERMISSION_DENIED",
    "FS_STALE_VERSION",
    "FS_TOO_LARGE",
]


class FsError(CordisError):
    """A file operation was refused or failed; the message names the file."""

    def __init__(self, message: str, *, code: FsErrorCode) -> None:
        super().__init__(message, code=code)
