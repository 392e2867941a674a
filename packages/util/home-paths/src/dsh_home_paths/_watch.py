"""One name for a file, however it is reached and whether it is there or not."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def canonical_watch_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path of `path` with every symbolic link on the way followed.

    Nothing of it needs to exist: the deepest ancestor that does is resolved, the rest is kept. So
    two spellings of one file are equal before the file is made. Raises `NotADirectoryError` if an
    ancestor is a file, and `OSError` if one is a link that leads back to itself.
    """
    canonical = os.path.realpath(path)
    # A link that leads to itself stays as it is there, and nothing can ever appear below it.
    if os.path.islink(canonical):
        raise _because(errno.ELOOP, canonical)
    for ancestor in Path(canonical).parents:
        if ancestor.is_dir():
            break
        if ancestor.is_symlink():
            raise _because(errno.ELOOP, str(ancestor))
        if ancestor.exists():
            raise _because(errno.ENOTDIR, str(ancestor))
    return Path(canonical)


def _because(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
