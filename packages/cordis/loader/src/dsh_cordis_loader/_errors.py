"""What can go wrong between a configuration file and a running row."""

from __future__ import annotations

from dsh_cordis import CordisError


class LoaderError(CordisError):
    """A row, an expression or a configuration file cannot be used.

    Codes: `INVALID_YAML`, `INVALID_ROW`, `INVALID_EXPRESSION`, `UNKNOWN_PLUGIN`, `IMPORT_FAILED`,
    `APPLY_FAILED`, `ROLLBACK_FAILED`, `DUPLICATE_ID`, `UNKNOWN_ENTRY`, `SELF_WAIT`, `TREE_ENDED`.
    """
