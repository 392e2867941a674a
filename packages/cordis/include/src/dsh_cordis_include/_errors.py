"""What can go wrong with files of rows and patches."""

from __future__ import annotations

from dsh_cordis import CordisError


class IncludeError(CordisError):
    """A file of rows or patches cannot be used.

    Codes: `CONFIG_NOT_FOUND`, `CONFIG_UNREADABLE`, `CONFIG_UNPARSABLE`, `CONFIG_INVALID`,
    `CONFIG_READONLY`.
    """
