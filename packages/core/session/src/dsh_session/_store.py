"""The live sessions of a process, and the events that tell of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

import msgspec
from dsh_cordis import Disposer, Emit, NoConfig, Parallel, Service, ServiceKey
from dsh_llm import SessionId
from dsh_scope import scope_of, scope_target

from ._errors import SessionError
from ._header import SessionMeta, make_header
from ._session import Session
from ._types import SessionEventTypes
from ._view import AnyEvent

if TYPE_CHECKING:
    from dsh_cordis import Context, Target


class SessionAppended(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An event was added to a session."""

    session: Session
    event: AnyEvent


SESSIONS = ServiceKey["SessionStore"]("sessions")

SESSION_CREATED = Emit[Session]("session/created")
"""It is announced. A listener that raises vetoes it."""
SESSION_EVENT = Emit[SessionAppended]("session/event", contained=True)
"""After the event is in the log; what a session starts from is not told."""
SESSION_FLUSH = Parallel[Session]("session/flush")
"""Someone wants everything durable; failures reach them."""
SESSION_DISPOSED = Emit[Session]("session/disposed", contained=True)
"""It left; once, and only if it was announced."""


class _Entry:
    """A live session: where its events go, and what keeps it from leaving."""

    __slots__ = ("announced", "announcing", "detach_wanted", "session", "target")

    def __init__(self, session: Session, target: Target) -> None:
        self.session = session
        self.target = target
        self.announced = False
        self.announcing = False
        self.detach_wanted = False


class SessionStore(Service):
    """Creates sessions and keeps the live ones.

    What a session tells is heard in the scope of the context through which it was entered.
    """

    provides = SESSIONS
    Config = NoConfig
    name = "dsh-session"

    types: SessionEventTypes
    """The event types known here. A definition that wants its type to be found without a search
    of the installation registers its key."""

    def __init__(self, ctx: Context, config: NoConfig | None = None) -> None:
        super().__init__(ctx, config)
        self.types = SessionEventTypes()
        self._live: dict[str, _Entry] = {}
        self._count = 0

    def create(
        self,
        session_id: SessionId | str | None = None,
        *,
        seed: Iterable[AnyEvent] | None = None,
        meta: SessionMeta | None = None,
    ) -> Session:
        """Make, enter and announce a session that lives as long as the caller's fiber.

        Without an id it is called `session-<n>`. Raises `SessionError` (`SESSION_EXISTS`,
        `INVALID_SEED`, `INVALID_HEADER`) and what a listener of `session/created` raises, which
        vetoes it.
        """
        session = self.prepare(session_id, seed=seed, meta=meta)

        def live() -> Generator[Disposer]:
            yield self.enter(session)
            self.announce(session)

        self.ctx.effect(live, f"sessions.create({session.id!r})")
        return session

    def prepare(
        self,
        session_id: SessionId | str | None = None,
        *,
        seed: Iterable[AnyEvent] | None = None,
        meta: SessionMeta | None = None,
    ) -> Session:
        """Make a session that nobody sees before `enter`. Raises `SessionError` as `create`."""
        if session_id is None:
            session_id = self._next_id()
        self._check_free(session_id)
        header = make_header(SessionId(session_id), meta)
        return Session.create(session_id, seed=seed, header=header)

    def enter(self, session: Session) -> Disposer:
        """Put a session among the live ones; the result takes it out.

        Events are heard in the scope of the caller's context from now on. Taking it out waits while
        `session/created` or an append is being told. Raises `SESSION_EXISTS`.
        """
        self._check_free(session.id)
        if session.attached:
            raise SessionError(
                f"session {session.id!r} lives in another store", code="SESSION_EXISTS"
            )

        entry = _Entry(session, scope_target(scope_of(self.ctx)))
        self._live[session.id] = entry
        session.attach(self._publisher(entry))

        def detach() -> None:
            if self._live.get(session.id) is not entry:
                return
            entry.detach_wanted = True
            if not entry.announcing and not session.publishing:
                self._remove(entry)

        return detach

    def announce(self, session: Session) -> None:
        """Tell of an entered session; once. A listener that raises vetoes by its error.

        Raises `SessionError`: `SESSION_NOT_LIVE`, `SESSION_ANNOUNCED`.
        """
        entry = self._entry(session)
        if entry.announced:
            raise SessionError(
                f"session {session.id!r} has been announced already", code="SESSION_ANNOUNCED"
            )
        entry.announced = entry.announcing = True
        try:
            self.own.emit(SESSION_CREATED, session, target=entry.target)
        finally:
            entry.announcing = False
            if entry.detach_wanted:
                self._remove(entry)

    async def flush(self, session: Session) -> bool:
        """Have everything appended so far made durable; whether anyone does that.

        Waits for all who do and raises the first failure. Raises `SESSION_NOT_LIVE`.
        """
        entry = self._entry(session)
        if not self.own.reaches(SESSION_FLUSH, session, target=entry.target):
            return False
        try:
            await self.own.parallel(SESSION_FLUSH, session, target=entry.target)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return True

    def get(self, session_id: SessionId | str) -> Session | None:
        """The live session of that id."""
        entry = self._live.get(session_id)
        return None if entry is None else entry.session

    def list(self) -> tuple[Session, ...]:
        """The live sessions in the order they were entered."""
        return tuple(entry.session for entry in self._live.values())

    def _publisher(self, entry: _Entry) -> Callable[[AnyEvent], Callable[[], None]]:
        session, target, emission = entry.session, entry.target, self.own.emission

        def publish(event: AnyEvent) -> Callable[[], None]:
            tell = emission(SESSION_EVENT, SessionAppended(session, event), target=target)

            def told() -> None:
                tell()
                if entry.detach_wanted:
                    self._remove(entry)

            return told

        return publish

    def _remove(self, entry: _Entry) -> None:
        session = entry.session
        if self._live.get(session.id) is not entry or entry.announcing:
            return
        del self._live[session.id]
        session.attach(None)
        if entry.announced:
            self.own.emit(SESSION_DISPOSED, session, target=entry.target)

    def _entry(self, session: Session) -> _Entry:
        entry = self._live.get(session.id)
        if entry is None or entry.session is not session:
            raise SessionError(f"session {session.id!r} is not live here", code="SESSION_NOT_LIVE")
        return entry

    def _check_free(self, session_id: str) -> None:
        if session_id in self._live:
            raise SessionError(
                f"session {session_id!r} is live already: use it, or wait for its end",
                code="SESSION_EXISTS",
            )

    def _next_id(self) -> str:
        while True:
            self._count += 1
            name = f"session-{self._count}"
            if name not in self._live:
                return name
