"""What the subprocess service raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class SubprocessError(CordisError):
    """A process could not be found, started or followed.

    Codes: `EXECUTABLE_NOT_FOUND`, `INVALID_SPAWN_SPEC`, `SPAWN_FAILED`, `PROCESS_LOST`.
    """
