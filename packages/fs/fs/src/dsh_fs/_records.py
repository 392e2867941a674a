"""Files, their versions, and what operations expect and give back."""

from __future__ import annotations

from typing import Literal, NewType, TypeAlias

import msgspec

FileKey = NewType("FileKey", str)
"""Identity of a file: all names of one file share it. Opaque."""

FileVersion = NewType("FileVersion", str)
"""Changes whenever the file may have changed. Opaque, compared for equality only."""

FileType: TypeAlias = Literal["file", "directory", "symlink", "other"]
Newlines: TypeAlias = Literal["none", "lf", "crlf", "mixed"]


class FileTarget(msgspec.Struct, frozen=True):
    """A resolved path."""

    key: FileKey
    display_path: str
    """What people and models see."""


class FileStat(msgspec.Struct, frozen=True):
    """What a file is right now."""

    version: FileVersion
    type: FileType
    size: int | None
    """Bytes; None where it has no meaning."""


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A child of a directory."""

    name: str
    type: FileType
    target: FileTarget


class TextRead(msgspec.Struct, frozen=True):
    """A whole text file, without its byte order mark; line endings as they are."""

    text: str
    version: FileVersion


class CreateIfAbsent(msgspec.Struct, frozen=True):
    """Write only if there is nothing at the path."""


class ReplaceIfVersion(msgspec.Struct, frozen=True):
    """Write only over exactly this version."""

    version: FileVersion


Expected: TypeAlias = CreateIfAbsent | ReplaceIfVersion


class TextConvention(msgspec.Struct, frozen=True):
    """How a text file is written."""

    byte_order_mark: bool
    newlines: Newlines


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """A file was created or replaced.

    `before` and `after` have LF line endings and no byte order mark, for showing a difference;
    `before` is None for a created file, one that was no text, and when either side is too large.
    """

    operation: Literal["create", "update"]
    version: FileVersion
    before: str | None
    after: str
    convention_before: TextConvention | None
    """None where `before` is."""
    convention_after: TextConvention


class TextEdit(msgspec.Struct, frozen=True, kw_only=True):
    """Replace literal text. Line endings of the file are matched by LF."""

    old: str
    new: str
    replace_all: bool = False


class EditResult(msgspec.Struct, frozen=True):
    """A file was edited; `before` and `after` as in `WriteResult`, None when too large to show."""

    version: FileVersion
    before: str | None
    after: str | None
