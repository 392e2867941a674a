"""The dsh launcher."""

from ._main import main

__all__ = ("main",)
