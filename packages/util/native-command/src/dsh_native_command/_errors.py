"""The error of this package."""

from __future__ import annotations

from dsh_cordis import CordisError


class NativeCommandError(CordisError):
    """A command did not do what was asked. The message holds none of its output or arguments."""

    exit_code: int | None
    """Its exit status, negative the signal that ended it; None if it has none of its own."""
    stdout: str
    stderr: str

    def __init__(
        self,
        message: str,
        *,
        code: str,
        exit_code: int | None = None,
        stdout: str = "",
        stderr: str = "",
    ) -> None:
        super().__init__(message, code=code)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
