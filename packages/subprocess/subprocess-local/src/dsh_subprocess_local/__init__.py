"""Child processes on this machine, owned as whole trees."""

from __future__ import annotations

from ._service import LocalSubprocess

__all__ = ("LocalSubprocess",)
