"""The idle watchdog."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from dsh_cordis import AbortController
from dsh_timeout import IdleWatchdog, TimeoutReason, timeout_of

pytestmark = pytest.mark.anyio


async def test_a_silent_source_trips_it(clock: Any) -> None:
    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        async with watchdog.waiting():
            await clock.advance(99)
            assert not watchdog.signal.aborted
            await clock.advance(2)
            assert timeout_of(watchdog.signal, "IDLE") == TimeoutReason("IDLE", 100)


async def test_a_slow_consumer_never_trips_it(clock: Any) -> None:
    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        for _ in range(3):
            async with watchdog.waiting():
                await clock.advance(60)
            await clock.advance(1000)
        assert not watchdog.signal.aborted


async def test_each_wait_has_the_full_time(clock: Any) -> None:
    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        for _ in range(5):
            async with watchdog.waiting():
                await clock.advance(90)
        assert not watchdog.signal.aborted
        async with watchdog.waiting():
            await clock.advance(101)
        assert watchdog.signal.aborted


async def test_a_pulse_gives_the_outstanding_wait_its_time_again(clock: Any) -> None:
    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        async with watchdog.waiting():
            for _ in range(4):
                await clock.advance(75)
                watchdog.pulse()
            assert not watchdog.signal.aborted
            await clock.advance(101)
            assert watchdog.signal.aborted


async def test_a_pulse_between_waits_arms_nothing(clock: Any) -> None:
    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        watchdog.pulse()
        await clock.advance(1000)
        assert not watchdog.signal.aborted


async def test_overlapping_waits_are_refused_and_leave_the_first_one_armed(clock: Any) -> None:
    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        async with watchdog.waiting():
            with pytest.raises(RuntimeError, match="one wait at a time"):
                async with watchdog.waiting():
                    pass
            await clock.advance(101)
            assert watchdog.signal.aborted


async def test_next_returns_the_item_and_passes_errors_on(clock: Any) -> None:
    async def item() -> int:
        await clock.advance(50)
        return 7

    async def broken() -> int:
        raise OSError("reset")

    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        assert await watchdog.next(item()) == 7
        with pytest.raises(OSError, match="reset"):
            await watchdog.next(broken())
        assert await watchdog.next(item()) == 7


async def test_it_only_tells_and_the_signal_scope_ends_the_read(clock: Any) -> None:
    reading = asyncio.Event()

    async def read_forever() -> None:
        reading.set()
        await asyncio.Event().wait()

    async def consume(watchdog: IdleWatchdog) -> None:
        async with watchdog.signal.scope():
            await watchdog.next(read_forever())

    with IdleWatchdog(None, 100, "IDLE") as watchdog:
        task = asyncio.create_task(consume(watchdog))
        await reading.wait()
        await clock.advance(101)
        with pytest.raises(Exception, match="IDLE after 100 ms"):
            await task


async def test_the_callers_abort_wins_when_it_is_first(clock: Any) -> None:
    caller = AbortController()
    with IdleWatchdog(caller.signal, 100, "IDLE") as watchdog:
        async with watchdog.waiting():
            caller.abort("stop")
            await clock.advance(200)
        assert watchdog.signal.reason == "stop"


async def test_a_disposed_watchdog_follows_nothing(clock: Any) -> None:
    caller = AbortController()
    watchdog = IdleWatchdog(caller.signal, 100, "IDLE")
    async with watchdog.waiting():
        watchdog.dispose()
        await clock.advance(200)
        caller.abort("late")
        assert not watchdog.signal.aborted


async def test_zero_bounds_nothing(clock: Any) -> None:
    with IdleWatchdog(None, 0, "IDLE") as watchdog:
        async with watchdog.waiting():
            watchdog.pulse()
            await clock.advance(10**9)
            assert not watchdog.signal.aborted
