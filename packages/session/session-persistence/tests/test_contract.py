"""What every storage does: create, append, load, inspect, repair."""

from __future__ import annotations

from typing import Any

import pytest
from dsh_cordis import AbortController, AbortedError
from dsh_session import (
    STEP_START,
    TURN_END,
    TURN_START,
    LogEvent,
    Session,
    SessionError,
    SessionHeader,
    StepMark,
    TurnCompleted,
    TurnEnd,
    TurnStart,
)
from dsh_session_persistence import (
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceError,
)

pytestmark = pytest.mark.anyio

HEADER = SessionHeader(id="s", created_at=5, cwd="/w", agent_preset="p", delegation_depth=1)


async def code_of(work: Any) -> str:
    with pytest.raises(SessionPersistenceError) as caught:
        await work
    return caught.value.code


async def stored(home: Any, tools: Any, **part: Any) -> Session:
    """Leave the log of a session behind, as a process that dies leaves it."""
    async with home.open() as process:
        session = process.sessions.create("s")
        tools["turn"](session, **part)
        await process.sessions.flush(session)
        return session


async def test_what_is_appended_is_loaded_again(process: Any, tools: Any) -> None:
    made = tools["made"]
    events = [made(TURN_START, TurnStart(1), 0), made(TURN_END, TurnEnd(1, TurnCompleted()), 1)]
    await process.storage.create(HEADER)
    await process.storage.append("s", events[:1])
    await process.storage.append("s", events[1:])
    await process.storage.append("s", [])
    loaded = await process.storage.load("s")
    assert loaded.meta == HEADER
    assert [(e.type, e.seq, e.time, e.raw) for e in loaded.events] == [
        (e.type, e.seq, e.time, e.raw) for e in events
    ]
    assert loaded.events[1].data == events[1].data


async def test_a_bad_header_keeps_the_id_free(process: Any) -> None:
    with pytest.raises(SessionError):
        await process.storage.create(SessionHeader(id="s", created_at=-1))
    await process.storage.create(HEADER)
    assert await code_of(process.storage.create(HEADER)) == "SESSION_EXISTS"


async def test_creating_writes_nothing(process: Any, home: Any) -> None:
    await process.storage.create(HEADER)
    assert await process.storage.list() == ()
    assert await code_of(process.storage.load("s")) == "SESSION_NOT_FOUND"
    assert not home.root.exists() or not list(home.root.rglob("session.jsonl*"))


async def test_a_stored_id_is_taken_across_processes(home: Any, tools: Any) -> None:
    await stored(home, tools)
    async with home.open() as process:
        assert await code_of(process.storage.create(HEADER)) == "SESSION_EXISTS"


@pytest.mark.parametrize("seqs", [[1], [0, 2], [0, 0]])
async def test_events_that_do_not_continue_the_log_are_refused(
    process: Any, tools: Any, seqs: list[int]
) -> None:
    await process.storage.create(HEADER)
    batch = [tools["made"](TURN_START, TurnStart(1), seq) for seq in seqs]
    assert await code_of(process.storage.append("s", batch)) == "SEQ_MISMATCH"
    assert await code_of(process.storage.load("s")) == "SESSION_NOT_FOUND"
    await process.storage.append("s", [tools["made"](TURN_START, TurnStart(1), 0)])


async def test_appending_to_an_untracked_log_repairs_it_first(home: Any, tools: Any) -> None:
    session = await stored(home, tools, until="step")
    async with home.open() as process:
        event = tools["made"](TURN_START, TurnStart(2), session.seq + 2)
        await process.storage.append("s", [event])
        events = await process.storage.read_from("s", session.seq)
    assert tools["types"](events) == ["step/end", "turn/end", "turn/start"]


async def test_unknown_ids_are_not_found(process: Any) -> None:
    storage = process.storage
    works = [storage.load("x"), storage.inspect("x"), storage.prepare("x"), storage.append("x", [])]
    for work in [*works, storage.read_from("x", 0)]:
        assert await code_of(work) == "SESSION_NOT_FOUND"


async def test_inspecting_shows_closers_and_changes_nothing(home: Any, tools: Any) -> None:
    await stored(home, tools, until="calls")
    before = home.content()
    async with home.open() as process:
        shown = await process.storage.inspect("s")
        assert tools["types"](shown.events[-4:]) == [
            "tool/result",
            "tool/result",
            "step/end",
            "turn/end",
        ]
        assert shown.damage is None
        assert home.content() == before
        loaded = await process.storage.load("s")
        assert tools["types"](loaded.events) == tools["types"](shown.events)
    assert home.content().startswith(before)
    assert home.content() != before


async def test_appends_continue_after_a_repair(home: Any, tools: Any) -> None:
    await stored(home, tools, until="calls")
    async with home.open() as process:
        session = await process.resume()
        codes = [e.data.error.code for e in session.events if e.type == "tool/result"]
        assert codes == ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]
        tools["turn"](session, 2)
        await process.sessions.flush(session)
    async with home.open() as process:
        again = await process.storage.load("s")
    assert tools["types"](again.events) == tools["types"](session.events)
    assert [event.seq for event in again.events] == list(range(session.seq))


async def test_resuming_writes_only_the_end_of_the_seed_and_what_is_new(
    home: Any, tools: Any
) -> None:
    old = await stored(home, tools)
    before = home.content()
    async with home.open() as process:
        session = await process.resume()
        assert session.first_live_seq == old.seq
        tools["turn"](session, 2)
        await process.sessions.flush(session)
        fresh = await process.storage.read_from("s", old.seq)
    assert home.content().startswith(before)
    assert tools["types"](fresh)[:2] == ["session/end-seed", "turn/start"]
    async with home.open() as process:
        await process.resume()
    after = home.content()
    async with home.open() as process:
        await process.resume()
    assert home.content() == after


async def test_a_suffix_is_read_without_closers_and_past_the_end_is_empty(
    home: Any, tools: Any
) -> None:
    session = await stored(home, tools, until="step")
    async with home.open() as process:
        assert tools["types"](await process.storage.read_from("s", 1)) == tools["types"](
            session.events[1:]
        )
        assert await process.storage.read_from("s", 99) == ()
        assert await code_of(process.storage.read_from("s", -1)) == "INVALID_SEQ"


async def test_cancelled_reads_raise_their_reason(home: Any, tools: Any) -> None:
    await stored(home, tools)
    controller = AbortController()
    reason = ValueError("changed my mind")
    controller.abort(reason)
    async with home.open() as process:
        storage = process.storage
        for read in (
            lambda: storage.inspect("s", controller.signal),
            lambda: storage.read_from("s", 0, controller.signal),
            lambda: storage.list(controller.signal),
            lambda: storage.prepare("s", controller.signal),
        ):
            with pytest.raises(ValueError, match="changed my mind"):
                await read()
        assert (await process.resume()).id == "s"


async def test_a_waiting_prepare_can_be_cancelled(home: Any, tools: Any) -> None:
    await stored(home, tools)
    controller = AbortController()
    async with home.open() as process:
        with await process.storage.prepare("s"):
            process.ctx.spawn(_soon, controller.abort)
            with pytest.raises(AbortedError):
                await process.storage.prepare("s", controller.signal)
        with await process.storage.prepare("s") as preparation:
            assert preparation.session.seq > 0


async def _soon(call: Any) -> None:
    call()


async def test_a_second_prepare_waits_for_the_first_ones_end(home: Any, tools: Any) -> None:
    await stored(home, tools)
    async with home.open() as process:
        first = await process.storage.prepare("s")
        second = process.ctx.spawn(process.storage.prepare, "s")
        await process.storage.inspect("s")
        assert not second.done()
        first.dispose()
        preparation = await second
        assert preparation.session is not first.session
        process.publish(preparation.session)
        preparation.dispose()
        assert await code_of(process.storage.prepare("s")) == "SESSION_LIVE"


async def test_a_reserved_id_cannot_be_appended_to_or_created(home: Any, tools: Any) -> None:
    await stored(home, tools)
    async with home.open() as process:
        with await process.storage.prepare("s"):
            assert await code_of(process.storage.append("s", [])) == "SESSION_RESERVED"
            with pytest.raises(SessionPersistenceError) as caught:
                process.sessions.create("s")
            assert caught.value.code == "SESSION_RESERVED"
            assert process.sessions.get("s") is None


async def test_a_live_session_is_loaded_between_turns_only(process: Any, tools: Any) -> None:
    session = process.sessions.create("s")
    assert await code_of(process.storage.load("s")) == "SESSION_NOT_FOUND"
    tools["turn"](session)
    loaded = await process.storage.load("s")
    assert loaded.events == tuple(session.events)
    session.append(TURN_START, TurnStart(2))
    assert await code_of(process.storage.load("s")) == "SESSION_LIVE"
    assert (await process.storage.inspect("s")).events == tuple(session.events)
    assert await code_of(process.storage.append("s", [])) == "SESSION_LIVE"


async def test_reloading_adopts_an_open_live_turn_without_closing_it(home: Any, tools: Any) -> None:
    async with home.open() as process:
        session = process.sessions.create("s")
        tools["turn"](session, until="step")
        await process.sessions.flush(session)
        await process.fiber.dispose()
        home.tear()
        session.append(STEP_START, StepMark(1, 2))
        await home.mount(process.ctx)
        session.append(TURN_END, TurnEnd(1, TurnCompleted()))
        await process.sessions.flush(session)
    async with home.open() as process:
        loaded = await process.storage.load("s")
    assert tools["types"](loaded.events) == tools["types"](session.events)
    assert loaded.events[-1].data.reason == TurnCompleted()


async def test_a_new_session_under_a_stored_id_collides_on_flush(home: Any, tools: Any) -> None:
    await stored(home, tools)
    before = home.content()
    async with home.open() as process:
        session = process.sessions.create("s")
        assert await code_of(process.sessions.flush(session)) == "SESSION_COLLISION"
        session.append(TURN_START, TurnStart(1))
        assert await code_of(process.sessions.flush(session)) == "SESSION_COLLISION"
    assert home.content() == before


async def test_the_same_log_in_another_directory_collides(home: Any, tools: Any) -> None:
    old = await stored(home, tools)
    async with home.open() as process:
        from dsh_session import SessionMeta

        session = process.sessions.create("s", seed=old.events, meta=SessionMeta(cwd="/other"))
        assert await code_of(process.sessions.flush(session)) == "SESSION_COLLISION"


async def test_a_session_that_continues_the_stored_log_adopts_it(home: Any, tools: Any) -> None:
    old = await stored(home, tools)
    async with home.open() as process:
        session = process.sessions.create("s", seed=old.events)
        tools["turn"](session, 2)
        await process.sessions.flush(session)
    async with home.open() as process:
        loaded = await process.storage.load("s")
    assert tools["types"](loaded.events) == tools["types"](session.events)


async def test_an_id_that_was_never_written_is_reusable(process: Any, tools: Any) -> None:
    first = process.sessions.prepare("s")
    detach = process.sessions.enter(first)
    process.sessions.announce(first)
    detach()
    second = process.sessions.create("s")
    tools["turn"](second)
    assert await process.sessions.flush(second)
    assert [header.id for header in await process.storage.list()] == ["s"]


async def test_a_session_can_be_resumed_again_after_its_end(home: Any, tools: Any) -> None:
    await stored(home, tools)
    async with home.open() as process:
        for number in (2, 3):
            with await process.storage.prepare("s") as preparation:
                session = preparation.session
                detach = process.sessions.enter(session)
                process.sessions.announce(session)
            tools["turn"](session, number)
            detach()
        loaded = await process.storage.load("s")
    turns = [event.data.turn for event in loaded.events if event.type == "turn/start"]
    assert turns == [1, 2, 3]


async def test_required_types_that_nobody_knows_are_refused_by_name(home: Any, tools: Any) -> None:
    key = LogEvent("future/event", StepMark)
    async with home.open() as process:
        session = process.sessions.create("s")
        session.append(key, StepMark(1, 1), ignorable=True)
        await process.sessions.flush(session)
    async with home.open() as process:
        loaded = await process.storage.load("s")
        assert loaded.events[0].ignorable
        assert dict(loaded.events[0].data) == {"turn": 1, "step": 1}
        session = await process.resume()
        session.append(key, StepMark(1, 1))
        await process.sessions.flush(session)
    async with home.open() as process:
        for read in (process.storage.inspect, process.storage.load, process.storage.prepare):
            with pytest.raises(SessionFormatUnsupportedError, match="future/event"):
                await read("s")


async def test_a_registered_type_is_known(home: Any, tools: Any) -> None:
    key = LogEvent("future/event", StepMark)
    async with home.open() as process:
        session = process.sessions.create("s")
        session.append(key, StepMark(1, 1))
        await process.sessions.flush(session)
    async with home.open() as process:
        process.sessions.types.register(key)
        loaded = await process.storage.load("s")
        assert loaded.events[0].data == StepMark(1, 1)


async def test_a_log_that_breaks_the_rules_of_sessions_is_corrupt(home: Any, tools: Any) -> None:
    async with home.open() as process:
        await process.storage.create(HEADER)
        raw = b'{"id":"","role":"user","content":[],"source":{"kind":"user"}}'
        event = tools["made"](TURN_START, TurnStart(1), 0)
        from dsh_session import USER_MESSAGE, SessionEvent

        bad = SessionEvent("user/message", 1, 1, raw, USER_MESSAGE.decode, "append")
        await process.storage.append("s", [event, bad])
    async with home.open() as process:
        for read in (process.storage.inspect, process.storage.load, process.storage.prepare):
            with pytest.raises(SessionPersistenceCorruptionError, match="event 1 of the seed"):
                await read("s")


async def test_sessions_without_events_are_not_listed(home: Any, tools: Any) -> None:
    async with home.open() as process:
        process.sessions.create("empty")
        tools["turn"](process.sessions.create("full"))
        await process.sessions.flush(process.sessions.get("empty"))
    async with home.open() as process:
        assert [header.id for header in await process.storage.list()] == ["full"]
