"""What the subprocess service raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class SubprocessError(CordisError):
    """A process could not be started or found.

    Codes: `SPAWN_FAILED`, `EXECUTABLE_NOT_FOUND`, `INVALID_SPAWN_SPEC`.
    """
