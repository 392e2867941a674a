"""Files must be read before they are changed."""

from __future__ import annotations

from ._plugin import Config, apply

__all__ = ("Config", "apply")
