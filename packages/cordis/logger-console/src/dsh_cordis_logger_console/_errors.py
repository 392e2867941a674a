"""The error of this package."""

from __future__ import annotations

from dsh_cordis import CordisError


class ConsoleLoggerError(CordisError):
    """The console cannot be mounted."""
