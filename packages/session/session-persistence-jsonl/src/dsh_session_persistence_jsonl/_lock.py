"""One writer for each session, across processes."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from dsh_session_persistence import SessionPersistenceError

_READ_ATTEMPTS: Final = 20
_READ_PAUSE_S: Final = 0.005


class Owner(msgspec.Struct, rename="camel"):
    """Who holds a lock, as the lock file says."""

    pid: int
    host: str
    started_at: str
    """ISO 8601, UTC."""


def acquire(path: Path) -> int:
    """Lock the file at `path` and return its descriptor; closing that releases the lock.

    The lock counts, not the file: it ends with its process, however that ends. Never waits for
    it. Raises `SESSION_LOCKED` naming the owner, `LOCK_UNSUPPORTED`, `OSError`.
    """
    try:
        import fcntl
    except ImportError as error:
        raise _unsupported(path, str(error)) from error
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise _locked(path) from None
    except OSError as error:
        os.close(descriptor)
        raise _unsupported(path, str(error)) from error
    # The note is for people; on a full disk the lock holds without it.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _note(), 0)
    return descriptor


def _note() -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return msgspec.json.encode(Owner(os.getpid(), socket.gethostname(), now)) + b"\n"


def _locked(path: Path) -> SessionPersistenceError:
    owner = _owner(path)
    who = "another process"
    if owner is not None:
        who = f"process {owner.pid} on {owner.host}, since {owner.started_at}"
    return SessionPersistenceError(
        f"session is open for writing in {who}; end that one first, or just read it here "
        f"({path.parent})",
        code="SESSION_LOCKED",
    )


def _owner(path: Path) -> Owner | None:
    # The owner may have taken the lock just now and not have signed it yet.
    for _ in range(_READ_ATTEMPTS):
        try:
            owner = msgspec.json.decode(path.read_bytes(), type=Owner)
        except (OSError, msgspec.DecodeError):
            owner = None
        if owner is not None and _plausible(owner):
            return owner
        time.sleep(_READ_PAUSE_S)
    return None


def _plausible(owner: Owner) -> bool:
    if owner.host != socket.gethostname():
        return True
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _unsupported(path: Path, reason: str) -> SessionPersistenceError:
    return SessionPersistenceError(
        f"cannot lock {path}: {reason}; put the sessions on a local file system that has flock",
        code="LOCK_UNSUPPORTED",
    )
