"""Writing behind: windows, barriers, failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from dsh_cordis import Context
from dsh_session import SESSIONS, TURN_START, Session, SessionStore, TurnStart
from dsh_session_persistence import SessionPersistenceError

pytestmark = pytest.mark.anyio


def add(session: Session, count: int = 1) -> None:
    for _ in range(count):
        session.append(TURN_START, TurnStart(session.seq + 1))


def full() -> SessionPersistenceError:
    return SessionPersistenceError("no space", code="STORAGE_FULL")


async def test_events_of_one_window_are_one_batch(memory: Any) -> None:
    async with memory.open() as process:
        session = process.sessions.create("s")
        for _ in range(20):
            add(session)
            await asyncio.sleep(0)
        await memory.memory.until(lambda b: bool(b.batches))
    assert memory.memory.batches == [list(range(20))]


async def test_a_failed_batch_is_written_with_what_comes_next(
    memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    backend = memory.memory
    backend.failures.append(full())
    with caplog.at_level(logging.WARNING):
        async with memory.open(writeBatchMaxDelayMs=1) as process:
            session = process.sessions.create("s")
            add(session)
            await backend.until(lambda b: b.attempts == 1 and not b.failures)
            while "no space" not in caplog.text:
                await asyncio.sleep(0)
            assert backend.batches == []
            add(session)
            await backend.until(lambda b: bool(b.batches))
    assert backend.batches == [[0, 1]]
    assert caplog.text.count("no space") == 1


async def test_events_during_a_write_get_their_own_batch(memory: Any) -> None:
    backend = memory.memory
    async with memory.open(writeBatchMaxDelayMs=1) as process:
        session = process.sessions.create("s")
        backend.gate.clear()
        add(session)
        await backend.until(lambda b: b.attempts == 1)
        add(session, 2)
        backend.gate.set()
        await backend.until(lambda b: len(b.batches) == 2)
    assert backend.batches == [[0], [1, 2]]


async def test_two_flushes_share_a_barrier_that_drains_a_late_event(memory: Any) -> None:
    backend = memory.memory
    async with memory.open() as process, asyncio.TaskGroup() as group:
        session = process.sessions.create("s")
        add(session)
        backend.gate.clear()
        one = group.create_task(process.sessions.flush(session))
        await backend.until(lambda b: b.attempts == 1)
        add(session)
        two = group.create_task(process.sessions.flush(session))
        await asyncio.sleep(0)
        assert not one.done()
        backend.gate.set()
        assert (await one, await two) == (True, True)
        assert backend.batches == [[0], [1]]


async def test_a_failed_flush_raises_to_all_who_wait_and_keeps_the_events(memory: Any) -> None:
    backend = memory.memory
    async with memory.open() as process:
        session = process.sessions.create("s")
        add(session, 2)
        backend.failures.append(full())
        flushes = [process.sessions.flush(session) for _ in range(2)]
        results = await asyncio.gather(*flushes, return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == ["STORAGE_FULL"] * 2
        assert session.seq == 2
        assert await process.sessions.flush(session)
    assert backend.batches == [[0, 1]]


async def test_a_cancelled_flush_leaves_the_write_to_the_others(memory: Any) -> None:
    backend = memory.memory
    async with memory.open() as process, asyncio.TaskGroup() as group:
        session = process.sessions.create("s")
        add(session)
        backend.gate.clear()
        one = group.create_task(process.sessions.flush(session))
        two = group.create_task(process.sessions.flush(session))
        await backend.until(lambda b: b.attempts == 1)
        one.cancel()
        await asyncio.wait([one])
        backend.gate.set()
        assert await two is True
    assert backend.batches == [[0]]


async def test_nothing_is_written_for_a_flush_without_news(memory: Any) -> None:
    async with memory.open() as process:
        session = process.sessions.create("s")
        add(session)
        await process.sessions.flush(session)
        await process.sessions.flush(session)
    assert memory.memory.attempts == 1


async def test_unloading_writes_what_is_left(memory: Any) -> None:
    async with memory.open(writeBatchMaxDelayMs=60_000) as process:
        add(process.sessions.create("s"), 3)
    assert memory.memory.batches == [[0, 1, 2]]


async def closing_agent(ctx: Any, written: list[bool]) -> Callable[[], Any]:
    """Appends and flushes on its way out, as an agent that closes its turn does."""
    store = ctx.get(SESSIONS)
    session = store.prepare("s")
    detach = store.enter(session)
    store.announce(session)
    add(session)

    async def close() -> None:
        for _ in range(5):
            await asyncio.sleep(0.001)
        add(session)
        written.append(await store.flush(session))
        add(session)
        detach()

    return close


@pytest.mark.parametrize("grouped", [False, True], ids=["root", "group"])
async def test_what_is_appended_while_the_tree_unloads_is_written_too(
    memory: Any, grouped: bool
) -> None:
    written: list[bool] = []
    async with Context() as root:
        await root.plugin(SessionStore)

        async def group(ctx: Any, config: object) -> None:
            await memory.mount(ctx, writeBatchMaxDelayMs=60_000)
            await ctx.plugin(closing_agent, written)

        if grouped:
            fiber = await root.plugin(group)
            await fiber.dispose()
        else:
            await group(root, None)
    assert written == [True]
    assert [seq for batch in memory.memory.batches for seq in batch] == [0, 1, 2]


async def test_a_disposed_session_is_drained_before_its_id_is_read(memory: Any) -> None:
    backend = memory.memory
    async with memory.open(writeBatchMaxDelayMs=60_000) as process:
        session = process.sessions.prepare("s")
        detach = process.sessions.enter(session)
        process.sessions.announce(session)
        add(session)
        backend.gate.clear()
        detach()
        reading = asyncio.ensure_future(process.storage.read_from("s", 0))
        await backend.until(lambda b: b.attempts == 1)
        assert not reading.done()
        backend.gate.set()
        assert [event.seq for event in await reading] == [0]


async def test_a_session_whose_storage_was_unloaded_says_so(memory: Any) -> None:
    async with memory.open() as process:
        session = process.sessions.create("s")
        add(session)
        backend = memory.memory
        backend.gate.clear()
        flush = asyncio.ensure_future(process.sessions.flush(session))
        await backend.until(lambda b: b.attempts == 1)
        disposal = asyncio.ensure_future(process.fiber.dispose())
        await asyncio.sleep(0)
        backend.gate.set()
        await disposal
        assert await flush is True
        add(session)
        assert await process.sessions.flush(session) is False


async def test_a_last_write_that_fails_is_logged_with_its_owner(
    memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    memory.memory.failures.append(full())
    with caplog.at_level(logging.WARNING):
        async with memory.open(writeBatchMaxDelayMs=60_000) as process:
            add(process.sessions.create("s"))
    assert "no space" in caplog.text
    assert "log of s" in caplog.text


async def test_a_last_write_that_fails_as_a_flush_did_is_not_told_twice(
    memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with memory.open(writeBatchMaxDelayMs=60_000) as process:
            session = process.sessions.create("s")
            add(session)
            memory.memory.failures.append(full())
            with pytest.raises(SessionPersistenceError):
                await process.sessions.flush(session)
            memory.memory.failures.append(full())
    assert caplog.text == ""
    assert memory.memory.batches == []
