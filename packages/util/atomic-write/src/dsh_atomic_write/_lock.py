"""One writer at a time, across processes."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ._errors import AtomicWriteError
from ._write import make_parents

_FIRST_RETRY_MS: Final = 20
_LONGEST_RETRY_MS: Final = 200
_HELD: Final = (errno.EACCES, errno.EAGAIN)


@asynccontextmanager
async def file_lock(file: str | os.PathLike[str], *, wait_ms: float = 2000) -> AsyncGenerator[None]:
    """Hold the writer lock of `file` for the block: `flock` on `<file>.lock` beside it.

    The lock ends with its process, so that a crash leaves none behind; the lock file stays and
    holds the last owner's pid. Waits up to `wait_ms` milliseconds for another owner, in this
    process or another one. Raises `AtomicWriteError` with code `LOCK_TIMEOUT` or, on a filesystem
    without locks, `LOCK_UNSUPPORTED`, and `OSError` if the lock file cannot be made.
    """
    path = Path(f"{os.fspath(file)}.lock")
    make_parents(path.parent, 0o700)
    descriptor = await _acquire(path, wait_ms)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


async def _acquire(path: Path, wait_ms: float) -> int:
    loop = asyncio.get_running_loop()
    last = loop.time() + wait_ms / 1000
    pause = _FIRST_RETRY_MS / 1000
    while (descriptor := _try_lock(path)) is None:
        left = last - loop.time()
        if left <= 0:
            raise AtomicWriteError(
                f"atomic-write: timed out waiting for the writer lock at {path}",
                code="LOCK_TIMEOUT",
            )
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_RETRY_MS / 1000)
    return descriptor


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(descriptor, path):
            return descriptor
    except OSError as error:
        if error.errno not in _HELD:
            os.close(descriptor)
            raise AtomicWriteError(
                f"atomic-write: no lock can be taken at {path} ({error.strerror}); "
                "keep the file on a filesystem that has flock",
                code="LOCK_UNSUPPORTED",
            ) from error
    os.close(descriptor)
    return None


def _is_current(descriptor: int, path: Path) -> bool:
    # Somebody may have deleted the lock file between open and flock; a lock on it excludes nobody.
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
