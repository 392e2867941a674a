"""What is known of one session id: who uses it, and who may write it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec
from dsh_cordis import AbortSignal
from dsh_session import Session, SessionHeader

from ._live import LiveLog
from ._work import unless


class Reservation(msgspec.Struct):
    """A session that was prepared for resuming and is not published yet."""

    session: Session
    durable: int
    """How many of its events are stored."""
    ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Track(msgspec.Struct, eq=False):
    """The state of one session id. Its operations run one after another, in `chain`."""

    id: str
    chain: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    users: int = 0
    """Operations that run or wait."""
    header: SessionHeader | None = None
    """Set once the id is taken: by an intent to create, an adopted log or a live session."""
    durable: int = 0
    materialized: bool = False
    unlock: Callable[[], None] | None = None
    """Held while this process is the writer."""
    reservation: Reservation | None = None
    live: LiveLog | None = None

    @property
    def free(self) -> bool:
        """Whether nobody has the id."""
        return self.header is None and self.live is None and self.reservation is None

    @property
    def idle(self) -> bool:
        """Whether nothing needs it any more."""
        return not self.users and self.free

    def let_go(self) -> None:
        """Forget what is stored and stop being the writer."""
        self.header = None
        self.durable = 0
        self.materialized = False
        if self.unlock is not None:
            unlock, self.unlock = self.unlock, None
            unlock()


class Tracks:
    """The tracks of all ids in use."""

    def __init__(self, is_live: Callable[[Session], bool]) -> None:
        self._is_live = is_live
        self._tracks: dict[str, Track] = {}

    def of(self, session_id: str) -> Track:
        """The track of an id, made on first use."""
        track = self._tracks.get(session_id)
        if track is None:
            track = self._tracks[session_id] = Track(session_id)
        return track

    def reserved(self, session_id: str) -> bool:
        """Whether a session of that id is prepared for resuming."""
        track = self._tracks.get(session_id)
        return track is not None and track.reservation is not None

    def forget(self, track: Track) -> None:
        """Drop a track that nothing needs any more, and its lock."""
        if track.idle and self._tracks.get(track.id) is track:
            track.let_go()
            del self._tracks[track.id]

    @asynccontextmanager
    async def exclusive(self, session_id: str, signal: AbortSignal | None) -> AsyncGenerator[Track]:
        """The operations of one id, one at a time and in order; failures do not spread."""
        if signal is not None:
            signal.throw_if_aborted()
        track = self.of(session_id)
        track.users += 1
        try:
            while (live := track.live) is not None and not self._is_live(live.session):
                # Before the chain: the last writes of an ended session may need it.
                await unless(signal, live.ended.wait)
            await unless(signal, track.chain.acquire)
            try:
                yield track
            finally:
                track.chain.release()
        finally:
            track.users -= 1
            self.forget(track)
