"""From names to files: one key for all names of a file."""

from __future__ import annotations

import os
import stat
from typing import Final

from dsh_fs import FileKey, FileStat, FileTarget, FileType, FileVersion, FsError

from ._faults import fs_errors

_TYPES: Final[dict[int, FileType]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
}


def resolve(path: str, cwd: str) -> FileTarget:
    """The file that `path` names. Blocking.

    The key is the real path; of a missing file, the real path of the nearest existing ancestor
    with the rest appended, so that creating the file does not change it.
    """
    if not path.strip():
        raise FsError("the path is blank; give the path of a file", code="FS_NOT_FOUND")
    absolute = os.path.join(cwd, path)
    with fs_errors("resolve", path):
        key = os.path.realpath(absolute)
    # `link/..` is not where the link stands, so what holds `..` is shown as the place it leads to.
    return FileTarget(FileKey(key), key if ".." in path.split("/") else os.path.normpath(absolute))


def version_of(status: os.stat_result) -> FileVersion:
    """Identity, size and both times: any change of content changes one of them."""
    return FileVersion(
        f"{status.st_dev}:{status.st_ino}:{status.st_size}"
        f":{status.st_mtime_ns}:{status.st_ctime_ns}"
    )


def file_stat(status: os.stat_result) -> FileStat:
    """The service's view of what the system said."""
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), "other")
    return FileStat(version_of(status), kind, status.st_size if kind == "file" else None)


def stat_path(path: str, *, follow: bool) -> FileStat | None:
    """None if nothing is there. Blocking."""
    with fs_errors("look at", path):
        try:
            return file_stat(os.stat(path, follow_symlinks=follow))
        except (FileNotFoundError, NotADirectoryError):
            return None
