"""Opt-in checks of what packages promise, at run time."""

from __future__ import annotations

from ._errors import InvariantError
from ._service import INVARIANTS, Fail, Installer, Invariants, InvariantsConfig

__all__ = (
    "INVARIANTS",
    "Fail",
    "Installer",
    "InvariantError",
    "Invariants",
    "InvariantsConfig",
)
