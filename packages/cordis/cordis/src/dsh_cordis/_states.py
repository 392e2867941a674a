"""The states of a fiber."""

from __future__ import annotations

from enum import IntEnum


class FiberState(IntEnum):
    """Where a fiber is in its life; the numbers are public."""

    PENDING = 0
    LOADING = 1
    ACTIVE = 2
    FAILED = 3
    DISPOSED = 4
    UNLOADING = 5
