"""A clock that the tests move."""

from __future__ import annotations

import asyncio

import pytest


class Clock:
    """The time of the running event loop, in milliseconds from its start."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = loop.time()
        loop.time = lambda: self._now

    async def advance(self, ms: float) -> None:
        """Move on and let the timers that are due run."""
        self._now += ms / 1000
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
async def clock() -> Clock:
    return Clock(asyncio.get_running_loop())
