"""Listing a directory."""

from __future__ import annotations

import errno
import os

from dsh_fs import DirectoryEntry, FileKey, FileTarget, FileType, FsError

from ._faults import fs_errors


def list_directory(target: FileTarget) -> tuple[DirectoryEntry, ...]:
    """The children by name; links by what they point at, broken ones as `other`. Blocking."""
    try:
        with fs_errors("list", target.display_path), os.scandir(target.key) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except FsError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            raise FsError(
                f"{target.display_path!r} is not a directory", code="FS_NOT_DIRECTORY"
            ) from error
        raise
    return tuple(_entry(target, child) for child in children)


def _entry(parent: FileTarget, child: os.DirEntry[str]) -> DirectoryEntry:
    with fs_errors("look at", child.path):
        key = FileKey(os.path.realpath(child.path))
        display = f"{parent.display_path.rstrip('/')}/{child.name}"
        return DirectoryEntry(child.name, _type(child), FileTarget(key, display))


def _type(child: os.DirEntry[str]) -> FileType:
    try:
        if child.is_dir():
            return "directory"
        return "file" if child.is_file() else "other"
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return "other"  # a link that leads to itself is as broken as one that leads nowhere
