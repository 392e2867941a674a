"""Writes and edits under their guards. Everything here blocks and runs off the event loop."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

from dsh_fs import (
    CreateIfAbsent,
    EditResult,
    Expected,
    FileVersion,
    FsError,
    ReplaceIfVersion,
    TextEdit,
    WriteResult,
)

from ._faults import fs_errors
from ._paths import version_of
from ._publish import create, replace
from ._read import RegularFile, not_regular, too_large
from ._text import TextFile, apply_edit, content_to_write, decode_text

EDIT_MAX_BYTES: Final = 128 * 1024 * 1024
"""An edit holds the file several times over in memory."""


def write_text(
    path: str,
    content: str,
    *,
    expected: Expected | None,
    basis_max_bytes: int,
    check_abort: Callable[[], None],
) -> WriteResult:
    """Put `content` at `path`; see `FileSystem.write_text`."""
    check_abort()
    new = content_to_write(content)
    data = new.encode(path)
    if isinstance(expected, CreateIfAbsent):
        status = create(path, data, before_publish=check_abort)
        return _written(status, None, new, existed=False)
    prior = _status(path)
    if isinstance(expected, ReplaceIfVersion):
        _require_version(path, prior, expected.version)
    if prior is not None and not stat.S_ISREG(prior.st_mode):
        raise not_regular(path, prior)
    before: TextFile | None = None
    if prior is not None and len(data) < basis_max_bytes:
        before = _basis(path, basis_max_bytes, check_abort)

    def before_publish() -> None:
        check_abort()
        if isinstance(expected, ReplaceIfVersion):
            _require_version(path, _status(path), expected.version)

    status = replace(path, data, prior=prior, before_publish=before_publish)
    return _written(status, before, new, existed=prior is not None)


def edit_text(
    path: str,
    edit: TextEdit,
    *,
    expected: ReplaceIfVersion | None,
    basis_max_bytes: int,
    check_abort: Callable[[], None],
) -> EditResult:
    """Replace text in `path`; see `FileSystem.edit_text`."""
    check_abort()
    with _open_to_edit(path) as file:
        opened = file.status
        # The version is judged first: after an outside change a missing needle says nothing.
        if expected is not None:
            _require_version(path, opened, expected.version)
        large = opened.st_size > EDIT_MAX_BYTES
        data = b"" if large else file.rest(check_abort, max_bytes=EDIT_MAX_BYTES + 1)
    if large or len(data) > EDIT_MAX_BYTES:
        raise too_large(path, EDIT_MAX_BYTES)
    before = decode_text(data, path, nul_anywhere=True)
    after = apply_edit(before, edit, path)
    new_data = after.encode(path)

    def before_publish() -> None:
        check_abort()
        # Guarded or not, an edit must not undo a change that it has not seen.
        _require_version(path, _status(path), version_of(opened))

    status = replace(path, new_data, prior=opened, before_publish=before_publish)
    shown = max(len(data), len(new_data)) < basis_max_bytes
    return EditResult(
        version_of(status),
        before.normalized() if shown else None,
        after.normalized() if shown else None,
    )


def _open_to_edit(path: str) -> RegularFile:
    try:
        return RegularFile(path)
    except FsError as error:
        if error.code != "FS_NOT_FOUND":
            raise
        raise FsError(f"there is no {path!r} to edit", code="FS_STALE_VERSION") from error


def _status(path: str) -> os.stat_result | None:
    with fs_errors("look at", path):
        try:
            return os.stat(path)
        except FileNotFoundError:
            return None


def _require_version(path: str, found: os.stat_result | None, version: FileVersion) -> None:
    if found is None or version_of(found) != version:
        state = "is gone" if found is None else "changed"
        raise FsError(f"{path!r} {state} since it was last read", code="FS_STALE_VERSION")


def _basis(path: str, max_bytes: int, check: Callable[[], None]) -> TextFile | None:
    """The old text for showing a difference, None if it is no text or too large."""
    try:
        with RegularFile(path) as file:
            # What is read counts, not the size: the file may grow meanwhile.
            data = file.rest(check, max_bytes=max_bytes)
        return decode_text(data, path) if len(data) < max_bytes else None
    except FsError as error:
        if error.code not in ("FS_NOT_TEXT", "FS_NOT_FOUND", "FS_PERMISSION_DENIED"):
            raise
        return None


def _written(
    status: os.stat_result, before: TextFile | None, after: TextFile, *, existed: bool
) -> WriteResult:
    return WriteResult(
        operation="update" if existed else "create",
        version=version_of(status),
        before=before.normalized() if before else None,
        after=after.normalized(),
        convention_before=before.convention if before else None,
        convention_after=after.convention,
    )
