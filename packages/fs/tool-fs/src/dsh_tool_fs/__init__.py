"""The read, write and edit tools."""

from __future__ import annotations

from ._config import Config
from ._plugin import apply, inject

__all__ = ("Config", "apply", "inject")
