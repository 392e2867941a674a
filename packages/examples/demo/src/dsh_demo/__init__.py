"""dsh demo: the product without a key."""

from __future__ import annotations

from ._command import main

__all__ = ("main",)
