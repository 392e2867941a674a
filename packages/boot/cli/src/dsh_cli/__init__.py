"""The dsh launcher."""

from __future__ import annotations

from ._main import main, program

__all__ = ("main", "program")
