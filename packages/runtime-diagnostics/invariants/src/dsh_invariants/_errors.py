"""The error of this package."""

from __future__ import annotations

from dsh_cordis import CordisError


class InvariantError(CordisError):
    """A package's promise is broken (`INVARIANT`), or its checks are there already."""

    package: str
    """The distribution whose promise it is."""

    def __init__(self, message: str, *, package: str, code: str = "INVARIANT") -> None:
        super().__init__(message, code=code)
        self.package = package
