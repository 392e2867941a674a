"""What this package raises beside the operating system's own errors."""

from __future__ import annotations

from dsh_cordis import CordisError


class AtomicWriteError(CordisError):
    """A writer lock could not be taken."""
