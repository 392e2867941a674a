"""The error of this package."""

from __future__ import annotations

from dsh_cordis import CordisError


class ScopeError(CordisError):
    """A scope or a scoped entry cannot be made as asked."""
