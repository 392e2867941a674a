"""A die for agents."""

from __future__ import annotations

from ._plugin import Config, apply, inject

__all__ = ("Config", "apply", "inject")
