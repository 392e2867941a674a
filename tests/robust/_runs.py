"""How many trees are tried, and how the loop is brought to rest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Final

from hypothesis import HealthCheck, Phase, settings

TREES: Final = int(os.environ.get("DSH_TEST_TREES") or 0)
"""How many to try; 0: a few hundred, the same each time."""

PATIENCE_S: Final = 0 if TREES else 60
"""What pytest-timeout is told."""


def trees(number: int) -> settings:
    """For a test that usually tries `number` trees."""
    return settings(
        max_examples=TREES or number,
        derandomize=not TREES,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep thousands of tracebacks out of the log, all of them wanted."""
    log = logging.getLogger("dsh.cordis")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


async def settle() -> None:
    """Wait until nothing in the loop can go on by itself."""
    turns = 0
    await asyncio.sleep(0)
    while asyncio.get_running_loop()._ready:  # what no public call tells
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10_000, "it never comes to rest"
