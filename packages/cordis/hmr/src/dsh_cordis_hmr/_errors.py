"""The package's error."""

from __future__ import annotations

from dsh_cordis import CordisError


class HmrError(CordisError):
    """Raised by `watch_file`, and what a refresh that raised no error is reported as.

    Codes: `ALREADY_WATCHED`, `INVALID_PATH`, `REFRESH_STOPPED`.
    """
