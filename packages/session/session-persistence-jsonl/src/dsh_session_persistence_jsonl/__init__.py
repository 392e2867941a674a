"""Sessions as compressed, checksummed JSONL files."""

from __future__ import annotations

from ._storage import JsonlBackend, JsonlConfig, JsonlSessionPersistence

__all__ = ("JsonlBackend", "JsonlConfig", "JsonlSessionPersistence")
