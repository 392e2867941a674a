"""Flushes the session log before anything with an effect."""

from __future__ import annotations

from ._policy import SessionCheckpointPolicy

__all__ = ("SessionCheckpointPolicy",)
