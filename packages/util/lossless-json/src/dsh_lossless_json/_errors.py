"""What this package raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class LosslessJsonError(CordisError):
    """A value would not survive a round trip through JSON unchanged; the message has its path."""

    def __init__(self, message: str, *, code: str = "NOT_LOSSLESS_JSON") -> None:
        super().__init__(message, code=code)
