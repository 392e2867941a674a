"""What a stored log has to satisfy, and the errors that say what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_session import (
    TURN_END,
    TURN_START,
    AnyEvent,
    Session,
    SessionError,
    SessionEventTypes,
)

from ._backend import StoredLocation, StoredLog
from ._errors import (
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceError,
)
from ._records import collector_off


def check_readable(
    stored: StoredLog, types: SessionEventTypes, location: StoredLocation | None
) -> None:
    """Raises `SessionFormatUnsupportedError` for a required event type that nobody here knows."""
    required = {event.type for event in stored.events if not event.ignorable}
    unknown = sorted(name for name in required if not types.known(name))
    if unknown:
        where = "" if location is None else f"; the log is {location.path}"
        raise SessionFormatUnsupportedError(
            f"session {stored.header.id!r} needs event types that are not installed: "
            f"{', '.join(map(repr, unknown))}; install the plugin that writes them, "
            f"or upgrade{where}"
        )


def restored(stored: StoredLog) -> Session:
    """The session of a sound log. Raises `SessionPersistenceCorruptionError`."""
    try:
        with collector_off():
            return Session.from_restore(
                stored.header.id, seed=list(stored.events), header=stored.header
            )
    except SessionError as error:
        raise SessionPersistenceCorruptionError(
            f"session {stored.header.id!r} cannot be used: {error}"
        ) from error


def continues(session: Session, stored: StoredLog) -> None:
    """Raises `SESSION_COLLISION` unless the live log continues the stored one."""
    same = session.header.cwd == stored.header.cwd and len(stored.events) <= session.seq
    if not same or not all(map(_equal, stored.events, session.events)):
        raise SessionPersistenceError(
            f"another session is stored as {session.id!r}: resume that one, "
            "or choose another id for the new one",
            code="SESSION_COLLISION",
        )


def check_continues(events: Sequence[AnyEvent], end: int) -> None:
    """Raises `SEQ_MISMATCH` unless `events` count on from `end`."""
    for expected, event in enumerate(events, end):
        if event.seq != expected:
            raise SessionPersistenceError(
                f"cannot store event {event.seq}: event {expected} comes next",
                code="SEQ_MISMATCH",
            )


def ends_open(events: Sequence[AnyEvent]) -> bool:
    """Whether the log ends inside a turn."""
    for position in range(len(events) - 1, -1, -1):
        event = events[position]
        if TURN_START.of(event) or TURN_END.of(event):
            return TURN_START.of(event)
    return False


def corrupt(session_id: str, damage: str) -> SessionPersistenceCorruptionError:
    """The error of a damaged log."""
    return SessionPersistenceCorruptionError(
        f"session {session_id!r} is damaged and cannot be resumed: {damage}; nothing was changed"
    )


def not_found(session_id: str) -> SessionPersistenceError:
    """The error of an id that nothing is stored under."""
    return SessionPersistenceError(f"session {session_id!r} not found", code="SESSION_NOT_FOUND")


def taken(session_id: str) -> SessionPersistenceError:
    """The error of an id that is in use or stored."""
    return SessionPersistenceError(f"session {session_id!r} exists already", code="SESSION_EXISTS")


def live_error(session_id: str) -> SessionPersistenceError:
    """The error of an operation that a live session does itself."""
    return SessionPersistenceError(
        f"session {session_id!r} is live here: use it, or wait for its end", code="SESSION_LIVE"
    )


def _equal(one: AnyEvent, other: AnyEvent) -> bool:
    if one is other:
        return True
    same = (
        one.type == other.type
        and one.time == other.time
        and one.ignorable == other.ignorable
        and one.surface_op == other.surface_op
        and one.source_event_seqs == other.source_event_seqs
    )
    # The bytes differ when another writer spelt the same payload in another way.
    return same and (one.raw == other.raw or one.data == other.data)
