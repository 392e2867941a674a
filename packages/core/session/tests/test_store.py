"""Live sessions: entering, announcing, leaving, flushing."""

from __future__ import annotations

import asyncio

import pytest
from dsh_cordis import Context
from dsh_scope import create_scope
from dsh_session import (
    SESSION_CREATED,
    SESSION_DISPOSED,
    SESSION_EVENT,
    SESSION_FLUSH,
    SESSIONS,
    TURN_START,
    Session,
    SessionAppended,
    SessionError,
    SessionPreparation,
    SessionStore,
    TurnStart,
)

pytestmark = pytest.mark.anyio


async def test_ids_are_counted_and_skip_live_ones(store: SessionStore) -> None:
    store.create("session-2")
    assert [store.create().id, store.create().id] == ["session-1", "session-3"]
    assert [s.id for s in store.list()] == ["session-2", "session-1", "session-3"]


async def test_a_live_id_is_refused(store: SessionStore) -> None:
    session = store.create("s")
    with pytest.raises(SessionError) as caught:
        store.create("s")
    assert caught.value.code == "SESSION_EXISTS"
    assert store.get("s") is session


async def test_a_session_ends_with_the_fiber_that_created_it(
    root: Context, store: SessionStore
) -> None:
    gone: list[str] = []
    root.on(SESSION_DISPOSED, lambda s: gone.append(s.id))

    class Owner:
        inject = (SESSIONS,)

        @staticmethod
        def apply(ctx: Context, config: object) -> None:
            ctx[SESSIONS].create("s")

    fiber = await root.plugin(Owner)
    assert store.get("s") is not None
    await fiber.dispose()
    assert (store.get("s"), gone) == (None, ["s"])


async def test_a_raising_created_listener_vetoes_and_frees_the_id(
    root: Context, store: SessionStore
) -> None:
    told: list[str] = []
    root.on(SESSION_DISPOSED, lambda s: told.append(s.id))

    def veto(session: Session) -> None:
        raise ValueError("no")

    undo = root.on(SESSION_CREATED, veto)
    with pytest.raises(ValueError, match="no"):
        store.create("s")
    assert (store.get("s"), told) == (None, ["s"])
    undo()
    assert store.create("s").id == "s"


async def test_detaching_while_it_is_announced_waits_for_the_other_listeners(
    root: Context, store: SessionStore
) -> None:
    told: list[tuple[str, bool]] = []
    session = store.prepare("s")
    detach = store.enter(session)
    root.on(SESSION_CREATED, lambda s: detach())
    root.on(SESSION_CREATED, lambda s: told.append(("created", store.get("s") is s)))
    root.on(SESSION_DISPOSED, lambda s: told.append(("disposed", store.get("s") is s)))
    store.announce(session)
    assert told == [("created", True), ("disposed", False)]
    detach()
    assert len(told) == 2


async def test_detaching_while_an_append_is_told_waits_for_its_end(
    root: Context, store: SessionStore
) -> None:
    told: list[str] = []
    session = store.prepare("s")
    detach = store.enter(session)
    store.announce(session)
    root.on(SESSION_EVENT, lambda a: detach())
    root.on(SESSION_EVENT, lambda a: told.append(f"event while live: {store.get('s') is session}"))
    root.on(SESSION_DISPOSED, lambda s: told.append("disposed"))
    session.append(TURN_START, TurnStart(1))
    assert told == ["event while live: True", "disposed"]


async def test_a_session_that_was_never_announced_leaves_silently(
    root: Context, store: SessionStore
) -> None:
    told: list[str] = []
    root.on(SESSION_DISPOSED, lambda s: told.append(s.id))
    detach = store.enter(store.prepare("s"))
    assert store.get("s") is not None
    detach()
    assert (store.get("s"), told) == (None, [])


async def test_announcing_twice_or_from_within_is_refused(
    root: Context, store: SessionStore
) -> None:
    session = store.prepare("s")
    with pytest.raises(SessionError) as caught:
        store.announce(session)
    assert caught.value.code == "SESSION_NOT_LIVE"
    store.enter(session)
    codes: list[str] = []

    def again(session: Session) -> None:
        try:
            store.announce(session)
        except SessionError as error:
            codes.append(error.code)

    root.on(SESSION_CREATED, again)
    store.announce(session)
    again(session)
    assert codes == ["SESSION_ANNOUNCED", "SESSION_ANNOUNCED"]


async def test_one_object_lives_in_one_store(store: SessionStore) -> None:
    session = store.prepare("s")
    store.enter(session)
    async with Context() as other:
        await other.plugin(SessionStore)
        with pytest.raises(SessionError, match="another store"):
            other[SESSIONS].enter(session)


async def test_after_its_end_a_session_can_still_be_appended_to(
    root: Context, store: SessionStore
) -> None:
    heard: list[object] = []
    root.on(SESSION_EVENT, heard.append)
    session = store.prepare("s")
    store.enter(session)()
    session.append(TURN_START, TurnStart(1))
    assert (session.seq, heard) == (1, [])


async def test_events_are_heard_in_the_scope_that_entered_the_session(root: Context) -> None:
    heard: list[str] = []
    one, other = object(), object()
    mine, foreign = create_scope(root, one), create_scope(root, other)

    def listen(ctx: Context, name: str) -> None:
        ctx.on(SESSION_EVENT, lambda a: heard.append(name))

    listen(root, "root")
    listen(mine.ctx, "mine")
    listen(foreign.ctx, "foreign")
    sessions = mine.ctx.get(SESSIONS)
    assert sessions is not None
    sessions.create("s").append(TURN_START, TurnStart(1))
    assert heard == ["root", "mine"]


async def test_flush_without_listeners_is_false(store: SessionStore) -> None:
    assert await store.flush(store.create("s")) is False


async def test_flush_waits_for_a_slow_listener_before_it_raises_anothers_error(
    root: Context, store: SessionStore
) -> None:
    done: list[str] = []
    gate = asyncio.Event()

    async def failing(session: Session) -> None:
        gate.set()
        raise OSError("disk")

    async def slow(session: Session) -> None:
        await gate.wait()
        await asyncio.sleep(0)
        done.append("slow")

    root.on(SESSION_FLUSH, failing)
    root.on(SESSION_FLUSH, slow)
    with pytest.raises(OSError, match="disk"):
        await store.flush(store.create("s"))
    assert done == ["slow"]


async def test_flush_is_true_if_someone_stores(root: Context, store: SessionStore) -> None:
    async def keep(session: Session) -> None:
        await asyncio.sleep(0)

    root.on(SESSION_FLUSH, keep)
    assert await store.flush(store.create("s")) is True


async def test_flushing_a_session_that_is_not_live_is_refused(store: SessionStore) -> None:
    with pytest.raises(SessionError) as caught:
        await store.flush(store.prepare("s"))
    assert caught.value.code == "SESSION_NOT_LIVE"


def test_a_preparation_releases_once() -> None:
    released: list[int] = []
    with SessionPreparation(Session.create("s"), lambda: released.append(1)) as preparation:
        assert preparation.session.id == "s"
    preparation.dispose()
    assert released == [1]


async def test_listeners_get_session_and_event(root: Context, store: SessionStore) -> None:
    heard: list[SessionAppended] = []
    root.on(SESSION_EVENT, heard.append)
    session = store.create("s")
    event = session.append(TURN_START, TurnStart(1))
    assert [(a.session, a.event) for a in heard] == [(session, event)]
