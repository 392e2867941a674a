"""What this package raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class LaunchEnvironmentError(CordisError):
    """A `.env` file sets what only the launching environment may set; nothing was applied."""

    def __init__(self, message: str, *, code: str = "FORBIDDEN_VARIABLE") -> None:
        super().__init__(message, code=code)
