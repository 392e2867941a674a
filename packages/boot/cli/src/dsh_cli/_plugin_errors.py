"""What `dsh plugin` raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class PluginError(CordisError):
    """A plugin command could not do what was asked; the profile is as it was.

    Codes: `INSTALLER_FAILED`, `INSTALLER_MISSING`, `MANIFEST`, `BAD_DISTRIBUTION`, `NOT_A_PLUGIN`,
    `NOT_WRITABLE`.
    """

    def __init__(self, message: str, *, code: str, status: int = 1) -> None:
        super().__init__(message, code=code)
        self.status = status
