"""Writes and edits under their guards. Everything here blocks and runs off the event loop."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from dsh_fs import (
    CreateIfAbsent,
    EditResult,
    Expected,
    FsError,
    FsErrorCode,
    ReplaceIfVersion,
    TextEdit,
    WriteResult,
)

from ._faults import fs_errors
from ._paths import version_of
from ._publish import create, replace
from ._read import not_regular, open_regular
from ._text import TextFile, apply_edit, content_to_write, decode_text


def write_text(
    path: str,
    content: str,
    *,
    expected: Expected | None,
    basis_max_bytes: int,
    check_abort: Callable[[], None],
) -> WriteResult:
    """Put `content` at `path`; see `FileSystem.write_text`."""
    new = content_to_write(content)
    data = new.encode()
    if isinstance(expected, CreateIfAbsent):
        status = create(path, data, before_publish=check_abort)
        return _written("create", status, None, new)
    prior = _status(path)
    _require_version(path, prior, expected)
    if prior is not None and not stat.S_ISREG(prior.st_mode):
        raise not_regular(path, prior)
    before = _basis(path, prior, max(basis_max_bytes, 0)) if len(data) < basis_max_bytes else None
    status = replace(path, data, prior=prior, before_publish=check_abort)
    return _written("create" if prior is None else "update", status, before, new)


def edit_text(
    path: str,
    edit: TextEdit,
    *,
    expected: ReplaceIfVersion | None,
    basis_max_bytes: int,
    check_abort: Callable[[], None],
) -> EditResult:
    """Replace text in `path`; see `FileSystem.edit_text`."""
    prior = _status(path)
    if prior is None:
        raise FsError(f"{path!r} does not exist any more", code="FS_STALE_VERSION")
    # The version is judged first: after an outside change a missing needle says nothing.
    _require_version(path, prior, expected)
    with open_regular(path) as file, fs_errors("read", path):
        opened = os.fstat(file.fileno())
        data = file.read()
    before = decode_text(data, path, nul_anywhere=True)
    after = apply_edit(before, edit, path)
    status = replace(path, after.encode(), prior=opened, before_publish=check_abort)
    shown = max(len(data), status.st_size) < basis_max_bytes
    return EditResult(
        version_of(status),
        before.normalized() if shown else None,
        after.normalized() if shown else None,
    )


def _status(path: str) -> os.stat_result | None:
    with fs_errors("look at", path):
        try:
            return os.stat(path)
        except FileNotFoundError:
            return None


def _require_version(path: str, found: os.stat_result | None, expected: Expected | None) -> None:
    if not isinstance(expected, ReplaceIfVersion):
        return
    if found is None or version_of(found) != expected.version:
        state = "is gone" if found is None else "changed"
        raise FsError(f"{path!r} {state} since it was last read", code="FS_STALE_VERSION")


def _basis(path: str, prior: os.stat_result | None, max_bytes: int) -> TextFile | None:
    """The old text for showing a difference, None if there was none or it is no text or large."""
    if prior is None:
        return None
    with open_regular(path) as file, fs_errors("read", path):
        if os.fstat(file.fileno()).st_size >= max_bytes:
            return None
        data = file.read()
    not_text: FsErrorCode = "FS_NOT_TEXT"
    try:
        return decode_text(data, path)
    except FsError as error:
        if error.code != not_text:
            raise
        return None


def _written(
    operation: str, status: os.stat_result, before: TextFile | None, after: TextFile
) -> WriteResult:
    return WriteResult(
        operation="create" if operation == "create" else "update",
        version=version_of(status),
        before=before.normalized() if before else None,
        after=after.normalized(),
        convention_before=before.convention if before else None,
        convention_after=after.convention,
    )
