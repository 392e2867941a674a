"""Replacing a file as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_file_atomic(
    file: str | os.PathLike[str],
    data: str | bytes,
    *,
    mode: int | None = None,
    dir_mode: int = 0o700,
) -> None:
    """Make `data` (text as UTF-8) the content of `file`; readers see the old content or the new.

    Blocks; the content is on the disk before it takes the name. Missing parent directories are
    made with `dir_mode`. `mode` is set exactly; None keeps the mode of a regular file that is
    replaced and gives a new one the umask's. A symbolic link is replaced itself, not its target.
    Raises `OSError` (nothing changed, no temporary file left) and `UnicodeEncodeError`.
    """
    target = Path(file)
    content = data.encode() if isinstance(data, str) else data
    make_parents(target.parent, dir_mode)
    if mode is None:
        mode = _kept_mode(target)
    # Beside the target, since a rename is atomic only within one filesystem.
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, _NEW_FILE, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if mode is not None:
                os.fchmod(descriptor, mode)
            stream.write(content)
            stream.flush()
            # Without it a power cut may leave the new name on an empty file.
            os.fsync(descriptor)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_parents(directory: Path, mode: int) -> None:
    """Make `directory` and what it lacks above it, each with `mode` less the umask."""
    # Path.mkdir(parents=True) would give the intermediate directories the umask's mode.
    missing: list[Path] = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    for each in reversed(missing):
        each.mkdir(mode, exist_ok=True)


def _kept_mode(target: Path) -> int | None:
    try:
        status = target.lstat()
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None
