"""The bound that a request may ask for."""

from __future__ import annotations

import math

from dsh_cordis import ConfigError


def clamp_timeout(
    requested_ms: float | None, *, default_ms: float, max_ms: float, name: str
) -> float:
    """Milliseconds to wait: what was requested, else `default_ms`, at most `max_ms`.

    Raises `ConfigError` with code `INVALID_TIMEOUT`, naming `name`, unless the result is positive
    and finite.
    """
    wanted = default_ms if requested_ms is None else requested_ms
    if isinstance(wanted, bool) or not (math.isfinite(wanted) and wanted > 0):
        raise ConfigError(
            f"{name} must be a positive finite number of milliseconds, not {wanted!r}",
            code="INVALID_TIMEOUT",
        )
    return min(wanted, max_ms)
