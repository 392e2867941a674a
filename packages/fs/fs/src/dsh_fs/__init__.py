"""Files: the definition of the service."""

from __future__ import annotations

from ._errors import FsError, FsErrorCode
from ._events import FS_EDIT_INTENT, FS_OBSERVED, FS_WRITE_INTENT, FileIntent, FileObserved
from ._records import (
    CreateIfAbsent,
    DirectoryEntry,
    EditResult,
    Expected,
    FileKey,
    FileStat,
    FileTarget,
    FileType,
    FileVersion,
    Newlines,
    ReplaceIfVersion,
    TextConvention,
    TextEdit,
    TextRead,
    WriteResult,
)
from ._service import FS, FileSystem

# More than a dozen names: a file service is mostly vocabulary.
__all__ = (
    "FS",
    "FS_EDIT_INTENT",
    "FS_OBSERVED",
    "FS_WRITE_INTENT",
    "CreateIfAbsent",
    "DirectoryEntry",
    "EditResult",
    "Expected",
    "FileIntent",
    "FileKey",
    "FileObserved",
    "FileStat",
    "FileSystem",
    "FileTarget",
    "FileType",
    "FileVersion",
    "FsError",
    "FsErrorCode",
    "Newlines",
    "ReplaceIfVersion",
    "TextConvention",
    "TextEdit",
    "TextRead",
    "WriteResult",
)
