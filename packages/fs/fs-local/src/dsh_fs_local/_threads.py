"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread. A cancelled caller waits for its end.

    A thread cannot be stopped, and what it uses (an open file, its turn to change one) is given
    back or to the next as soon as this ends.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):  # raised below, once it is safe
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # nobody is left to hear of it
        raise
