"""Durable sessions: the storage seam and its write coordinator."""

from __future__ import annotations

from ._backend import RawArtifact, SessionBackend, StoredLocation, StoredLog, StoredSession
from ._errors import (
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceError,
    storage_error,
)
from ._records import DecodedRecords, collector_off, decode_records, encode_records
from ._service import SESSION_PERSISTENCE, PersistenceOptions, SessionPersistence

# More than a dozen names: the second half is what a backend is written with.
__all__ = (
    "SESSION_PERSISTENCE",
    "DecodedRecords",
    "PersistenceOptions",
    "RawArtifact",
    "SessionBackend",
    "SessionFormatUnsupportedError",
    "SessionPersistence",
    "SessionPersistenceCorruptionError",
    "SessionPersistenceError",
    "StoredLocation",
    "StoredLog",
    "StoredSession",
    "collector_off",
    "decode_records",
    "encode_records",
    "storage_error",
)
