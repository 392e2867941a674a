"""What can go wrong between a command line and a running tree."""

from __future__ import annotations

from dsh_cordis import CordisError


class BootError(CordisError):
    """The harness cannot start; the message says why and what to do, without the program's name.

    Codes: `INVALID_PROFILE_NAME`, `UNKNOWN_PROFILE`, `PROFILE_EXISTS`, `INVALID_PROFILE`,
    `UNKNOWN_TEMPLATE`, `UNKNOWN_BUNDLE`, `HOME_NOT_WRITABLE`, `PREPARATION_FAILED`,
    `LOAD_FAILED`, `NOT_ACTIVATED`, `LAYER_UNUSABLE`,
    `INVALID_TIMEOUT`.
    """
