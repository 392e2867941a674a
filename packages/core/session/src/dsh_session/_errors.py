"""What this package raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class SessionError(CordisError):
    """A session, its header or one of its events is not acceptable; nothing was changed."""
