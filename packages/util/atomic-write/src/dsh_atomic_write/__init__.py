"""Atomic file replacement and advisory writer locks."""

from __future__ import annotations

from ._errors import AtomicWriteError
from ._lock import file_lock
from ._write import write_file_atomic

__all__ = ("AtomicWriteError", "file_lock", "write_file_atomic")
