from __future__ import annotations

import asyncio
import threading

import pytest
from dsh_fs_local._threads import in_thread

pytestmark = pytest.mark.anyio


async def test_a_cancelled_caller_waits_for_its_thread():
    loop = asyncio.get_running_loop()
    started, go_on = asyncio.Event(), threading.Event()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(10)
        raise ValueError("nobody hears this")

    task = asyncio.ensure_future(in_thread(work))
    await started.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_results_and_errors_come_through():
    assert await in_thread(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)
