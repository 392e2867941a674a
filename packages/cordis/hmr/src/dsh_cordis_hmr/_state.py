"""What a file holds, cheaply compared."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, TypeAlias

Stamp: TypeAlias = tuple[int, ...]
"""What the file system says of a file; it changes with each write."""

ABSENT: Final = b"absent"
NO_FILE: Final = b"no file"


def stamp_of(path: str) -> Stamp | None:
    """None for a file that is not there or cannot be looked at."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)


def digest_of(path: str) -> bytes:
    """A digest of the content; for what is no readable regular file, what it is instead."""
    try:
        # Never waits for the writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError) as error:
        return f"unreadable: {error}".encode()
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return NO_FILE
        with open(descriptor, "rb", closefd=False) as file:
            return digest(file.read())
    except OSError as error:
        return f"unreadable: {error}".encode()
    finally:
        os.close(descriptor)


def digest(data: bytes) -> bytes:
    """What `digest_of` gives for a file with that content."""
    return hashlib.blake2b(data, digest_size=16).digest()


def directories_for(path: str) -> set[str]:
    """Where to look for changes of `path`: beside it and beside what it links to.

    Where a directory is missing, the nearest one above that is there.
    """
    return {_nearest(os.path.dirname(one)) for one in {path, os.path.realpath(path)}}


def names_of(path: str) -> set[str]:
    """How changes of `path` may be reported."""
    return {path, os.path.realpath(path)}


def identity(directory: str) -> tuple[str, int, int] | None:
    """Tells a directory from another one that took its place."""
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return (directory, found.st_dev, found.st_ino)


class Watched:
    """One file as it was when last looked at."""

    __slots__ = ("_stamp", "digest", "names", "path")

    def __init__(self, path: str, *, digest: bytes | None = None) -> None:
        self.path = path
        self.names = names_of(path)
        self._stamp: Stamp | None = None
        self.digest = ABSENT
        if digest is None:
            self.look()
        else:
            self.digest = digest

    def look(self, events: Collection[str] = ()) -> bool:
        """Whether the content is another than before. Reads only if something points to that."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp and stamp is not None and not self.names.intersection(events):
            return False
        # Stamp before content: a write in between is seen the next time.
        self._stamp = stamp
        self.names = names_of(self.path)
        found = digest_of(self.path)
        changed, self.digest = found != self.digest, found
        return changed


def directories_below(roots: Iterable[Path], ignored: Ignored) -> Iterable[str]:
    """Every directory of the trees that is not ignored, the roots first."""
    for root in roots:
        for directory, below, _ in os.walk(root):
            relative = os.path.relpath(directory, root)
            below[:] = [
                name for name in below if not ignored(os.path.normpath(f"{relative}/{name}"))
            ]
            yield directory


class Ignored:
    """Patterns of relative paths; whatever lies below a match is ignored too."""

    def __init__(self, patterns: Iterable[str]) -> None:
        import re
        from fnmatch import translate

        self._anywhere: list[re.Pattern[str]] = []
        self._whole: list[re.Pattern[str]] = []
        for pattern in patterns:
            name = pattern.removeprefix("**/")
            wanted = self._whole if name == pattern else self._anywhere
            wanted.append(re.compile(translate(name.rstrip("/"))))

    def __call__(self, relative: str) -> bool:
        """Whether the path, or a directory on the way to it, matches."""
        parts = Path(relative).parts
        return any(
            any(one.match(part) for one in self._anywhere)
            or any(one.match("/".join(parts[: depth + 1])) for one in self._whole)
            for depth, part in enumerate(parts)
        )


def _nearest(directory: str) -> str:
    while not os.path.isdir(directory):
        above = os.path.dirname(directory)
        if above == directory:
            break
        directory = above
    return directory
