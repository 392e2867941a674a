"""Stores sessions: follows the live ones, opens the stored ones."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from dsh_cordis import AbortSignal, Disposer, FiberState, Service, ServiceKey
from dsh_session import (
    SESSION_CREATED,
    SESSION_DISPOSED,
    SESSION_EVENT,
    SESSION_FLUSH,
    SESSIONS,
    AnyEvent,
    Session,
    SessionAppended,
    SessionHeader,
    SessionPreparation,
    checked_header,
    interrupted_turn_closers,
)

from ._backend import RawArtifact, SessionBackend, StoredLocation, StoredLog, StoredSession
from ._checks import (
    check_continues,
    check_readable,
    continues,
    corrupt,
    ends_open,
    live_error,
    not_found,
    restored,
    taken,
)
from ._errors import SessionPersistenceError
from ._live import LiveLog
from ._track import Reservation, Track, Tracks
from ._work import finish, unless

if TYPE_CHECKING:
    from dsh_cordis import Context, Fiber

T = TypeVar("T")

SESSION_PERSISTENCE = ServiceKey["SessionPersistence"]("session_persistence")


class PersistenceOptions(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Options of every storage."""

    write_batch_max_delay_ms: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=2**31 - 1,
            description="How long an event waits for others before it is written.",
        ),
    ] = 200


class SessionPersistence(Service):
    """Makes live sessions durable and gives stored ones back.

    Each live session is written behind its appends, at the latest after the window of
    `writeBatchMaxDelayMs`; `session/flush` waits until it is. Subclasses name a backend.
    """

    provides = SESSION_PERSISTENCE
    inject = (SESSIONS,)

    def __init__(self, ctx: Context, options: PersistenceOptions, backend: SessionBackend) -> None:
        super().__init__(ctx, options)
        self._backend = backend
        self._delay_s = options.write_batch_max_delay_ms / 1000
        self._sessions = ctx[SESSIONS]
        self._tracks = Tracks(self._is_live)
        self._live: dict[Session, LiveLog] = {}

    def start(self) -> Generator[Disposer]:
        """Follow the live sessions, those included that were there before."""
        own = self.own
        yield self._backend.close
        own.on(SESSION_CREATED, self._on_created, unscoped=True)
        own.on(SESSION_EVENT, self._on_event, unscoped=True)
        own.on(SESSION_FLUSH, self._on_flush, unscoped=True)
        own.on(SESSION_DISPOSED, self._on_disposed, unscoped=True)
        for session in self._sessions.list():
            self._on_created(session)

    # -- reading ----------------------------------------------------------------------------

    def locate(self, header: SessionHeader) -> StoredLocation | None:
        """Where a session is or would be stored. No I/O."""
        return self._backend.locate(header)

    async def list(self, signal: AbortSignal | None = None) -> tuple[SessionHeader, ...]:
        """The headers of all stored sessions; those without an event are not stored."""
        return await unless(signal, self._backend.list)

    async def inspect(self, session_id: str, signal: AbortSignal | None = None) -> StoredSession:
        """A session as it would be after repair, changing nothing; a live one as it is now.

        A damaged log gives what stands before the damage, and says so in `damage`. Raises
        `SESSION_NOT_FOUND`, `SESSION_FORMAT_UNSUPPORTED`.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            return StoredSession(session.header, tuple(session.events))
        async with self._tracks.exclusive(session_id, signal):
            stored = await unless(signal, lambda: self._stored(session_id))
        if stored.damage is None:
            stored.events.extend(interrupted_turn_closers(stored.events))
            restored(stored)
        return StoredSession(stored.header, tuple(stored.events), stored.damage)

    async def read_from(
        self, session_id: str, from_seq: int, signal: AbortSignal | None = None
    ) -> tuple[AnyEvent, ...]:
        """The stored events from `from_seq` on, without repair; empty past the end.

        Raises `SESSION_NOT_FOUND`, `SESSION_CORRUPT`, `INVALID_SEQ`.
        """
        if from_seq < 0:
            raise SessionPersistenceError(
                f"cannot read from event {from_seq}: they count from 0", code="INVALID_SEQ"
            )
        async with self._tracks.exclusive(session_id, signal):
            stored = await unless(signal, lambda: self._stored(session_id))
        if stored.damage is not None:
            raise corrupt(session_id, stored.damage)
        return tuple(stored.events[from_seq:])

    async def load(self, session_id: str) -> StoredSession:
        """A session with its turns closed, on the storage too; a live one is flushed first.

        Raises `SESSION_NOT_FOUND`, `SESSION_CORRUPT`, `SESSION_FORMAT_UNSUPPORTED`,
        `SESSION_LOCKED`; `SESSION_LIVE` for a live one in the middle of a turn.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            return await self._load_live(session)
        async with self._tracks.exclusive(session_id, None) as track:
            stored = await self._stored(session_id)
            if not _needs_repair(stored):
                restored(stored)
                return StoredSession(stored.header, tuple(stored.events))
            # The lock that this takes goes with the track, unless someone else needs that.
            stored, _ = await finish(self.own, lambda: self._repaired(track, stored.header))
            return StoredSession(stored.header, tuple(stored.events))

    @property
    def supports_raw_artifacts(self) -> bool:
        """Whether `read_raw` works here."""
        return self._backend.supports_raw_artifacts

    async def read_raw(self, session_id: str) -> RawArtifact | None:
        """The log as text, without a torn end; None if absent."""
        async with self._tracks.exclusive(session_id, None):
            return await self._backend.read_raw(session_id)

    # -- writing ----------------------------------------------------------------------------

    async def create(self, header: SessionHeader) -> None:
        """Take an id. Nothing is written before the first `append`.

        Raises `SESSION_EXISTS`; `SessionError` for an unusable header, which leaves the id free.
        """
        checked_header(header, header.id)
        async with self._tracks.exclusive(header.id, None) as track:
            if not track.free or await self._backend.find(header.id) is not None:
                raise taken(header.id)
            track.header = header

    async def append(self, session_id: str, events: Iterable[AnyEvent]) -> None:
        """Store events of a session that is not live; returns when they are durable.

        They have to continue the stored log, which is repaired first if nobody has it open. Raises
        `SEQ_MISMATCH`, `SESSION_LIVE`, `SESSION_RESERVED`, `SESSION_NOT_FOUND`, `SESSION_LOCKED`.
        """
        batch = tuple(events)
        if self._tracks.reserved(session_id):
            raise SessionPersistenceError(
                f"session {session_id!r} is being resumed", code="SESSION_RESERVED"
            )
        if self._sessions.get(session_id) is not None:
            raise live_error(session_id)
        async with self._tracks.exclusive(session_id, None) as track:
            if track.header is None:
                header = await self._backend.find(session_id)
                if header is None:
                    raise not_found(session_id)
                stored, _ = await finish(self.own, lambda: self._repaired(track, header))
                track.header, track.durable = stored.header, len(stored.events)
                track.materialized = True
            check_continues(batch, track.durable)
            if batch:
                await finish(self.own, lambda: self._write(track, batch))

    async def prepare(
        self, session_id: str, signal: AbortSignal | None = None
    ) -> SessionPreparation:
        """The stored session, repaired and reserved, to be published or released.

        This process is its writer from here on. A second call waits for the first one's end.
        Raises `SESSION_LIVE`, `SESSION_NOT_FOUND`, `SESSION_CORRUPT`, `SESSION_LOCKED`,
        `SESSION_FORMAT_UNSUPPORTED`.
        """
        while True:
            async with self._tracks.exclusive(session_id, signal) as track:
                reservation = track.reservation
                if reservation is None:
                    return await self._reserve(track, signal)
            await unless(signal, reservation.ended.wait)

    # -- live sessions ----------------------------------------------------------------------

    def _on_created(self, session: Session) -> None:
        track = self._tracks.of(session.id)
        reservation = track.reservation
        if reservation is not None and reservation.session is not session:
            raise SessionPersistenceError(
                f"session {session.id!r} is being resumed: resume it, or choose another id",
                code="SESSION_RESERVED",
            )
        previous = track.live

        async def bind(live: LiveLog) -> int:
            if previous is not None:
                await previous.ended.wait()
            return await self._bind(track, live)

        live = LiveLog(session, delay_s=self._delay_s, bind=bind, write=self._write_live)
        self.own.spawn(
            self._follow, track, live, stop=lambda: self._stop(live), name=f"log of {session.id}"
        )
        self._live[session] = live
        track.live = live
        if reservation is not None:
            track.reservation = None
            track.header, track.materialized = session.header, True
            live.bind_to(reservation.durable)
            reservation.ended.set()
        elif session.seq:
            live.event_appended()

    def _on_event(self, appended: SessionAppended) -> None:
        live = self._live.get(appended.session)
        if live is not None:
            live.event_appended()

    async def _on_flush(self, session: Session) -> None:
        live = self._live.get(session)
        if live is not None:
            await live.flush()

    def _on_disposed(self, session: Session) -> None:
        live = self._live.pop(session, None)
        if live is not None:
            live.close()

    def _stop(self, live: LiveLog) -> None:
        # When more than this storage unloads, the agents are still closing their turns: the log
        # goes on until its session ends. When just this storage does, its sessions stay.
        if _unloads_with_others(self.own.fiber) and self._is_live(live.session):
            live.hurry()
        else:
            live.close()

    async def _follow(self, track: Track, live: LiveLog) -> None:
        try:
            await live.run()
        finally:
            self._live.pop(live.session, None)
            if track.live is live:
                track.live = None
                track.let_go()
                self._tracks.forget(track)

    async def _write_live(self, live: LiveLog, events: Sequence[AnyEvent]) -> None:
        await self._write(self._tracks.of(live.session.id), events)

    async def _bind(self, track: Track, live: LiveLog) -> int:
        """How much of a live session's log is stored already.

        A stored log that this one does not continue belongs to another session.
        """
        session = live.session
        async with track.chain:
            header = track.header or await self._backend.find(session.id)
            if header is None or (track.header is not None and not track.materialized):
                track.header = session.header
                return 0
            await self._become_writer(track, header)
            try:
                stored = await self._stored(session.id)
                if stored.damage is not None:
                    raise corrupt(session.id, stored.damage)  # noqa: TRY301 - gives up the lock like the others
                continues(session, stored)
                if stored.torn is not None:
                    await self._backend.commit_repair(stored.header, stored.torn, ())
            except BaseException:
                track.let_go()
                raise
            track.header, track.durable = stored.header, len(stored.events)
            track.materialized = True
            return track.durable

    # -- stored sessions --------------------------------------------------------------------

    async def _load_live(self, session: Session) -> StoredSession:
        if ends_open(session.events):
            raise live_error(session.id)
        await self._on_flush(session)
        if session.seq == 0:
            raise not_found(session.id)
        return StoredSession(session.header, tuple(session.events))

    async def _reserve(self, track: Track, signal: AbortSignal | None) -> SessionPreparation:
        if self._sessions.get(track.id) is not None:
            raise live_error(track.id)
        header = await unless(signal, lambda: self._backend.find(track.id))
        if header is None:
            raise not_found(track.id)
        try:
            stored, session = await finish(self.own, lambda: self._repaired(track, header))
            if signal is not None:
                signal.throw_if_aborted()
        except BaseException:
            track.let_go()
            raise
        reservation = track.reservation = Reservation(session, len(stored.events))

        def release() -> None:
            if track.reservation is reservation:
                track.reservation = None
                track.let_go()
                reservation.ended.set()
                self._tracks.forget(track)

        return SessionPreparation(session, release)

    async def _repaired(self, track: Track, header: SessionHeader) -> tuple[StoredLog, Session]:
        """The log after closing what a dead writer left open, and a session made of it.

        This process is its writer then.
        """
        await self._become_writer(track, header)
        # Read under the lock: the former writer may have gone on until a moment ago.
        stored = await self._stored(track.id)
        if stored.damage is not None:
            raise corrupt(track.id, stored.damage)
        closers = interrupted_turn_closers(stored.events)
        stored.events.extend(closers)
        session = restored(stored)
        if stored.torn is not None or closers:
            await self._backend.commit_repair(stored.header, stored.torn, closers)
        return stored, session

    async def _stored(self, session_id: str) -> StoredLog:
        stored = await self._backend.load_stored(session_id)
        if stored is None:
            raise not_found(session_id)
        check_readable(stored, self._sessions.types, self._backend.locate(stored.header))
        return stored

    async def _become_writer(self, track: Track, header: SessionHeader) -> None:
        if track.unlock is None:
            track.unlock = await self._backend.lock(header)

    async def _write(self, track: Track, events: Sequence[AnyEvent]) -> None:
        header = track.header
        assert header is not None
        await self._become_writer(track, header)
        await self._backend.append_batch(header, events, materialized=track.materialized)
        track.materialized = True
        track.durable += len(events)

    def _is_live(self, session: Session) -> bool:
        return self._sessions.get(session.id) is session


def _needs_repair(stored: StoredLog) -> bool:
    return (
        stored.damage is not None
        or stored.torn is not None
        or bool(interrupted_turn_closers(stored.events))
    )


def _unloads_with_others(fiber: Fiber) -> bool:
    parent = fiber.parent
    while parent is not None:
        if parent.state is FiberState.UNLOADING:
            return True
        parent = parent.parent
    return False
