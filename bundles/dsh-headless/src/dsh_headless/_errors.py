"""What the run raises."""

from __future__ import annotations

from dsh_cordis import CordisError


class HeadlessError(CordisError):
    """The run cannot start or gave no answer.

    Codes: `INVALID_TASK`, `INVALID_MODEL`, `NO_TURN`, `ABORTED`, `OUTPUT_CLOSED`, `OUTPUT_FAILED`.
    """
