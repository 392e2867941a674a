"""The error of this package."""

from __future__ import annotations

from dsh_cordis import CordisError


class TimerError(CordisError):
    """A wait ended because its owner did."""
