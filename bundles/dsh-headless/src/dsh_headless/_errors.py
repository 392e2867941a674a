"""What the run raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class HeadlessError(CordisError):
    """The run cannot start or gave no answer. Codes: `INVALID_TASK`, `NO_TURN`, and the ending of
    a turn that did not complete, such as `ABORTED`, `BLOCKED`, `MAX_TOKENS`."""
