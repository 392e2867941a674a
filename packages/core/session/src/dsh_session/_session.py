"""A session: an append-only log and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec
from dsh_cordis import CordisError
from dsh_llm import Message, SessionId

from ._envelope import LogEvent, Replace, SessionEvent, SessionEventType, SurfaceEvent, SurfaceOp
from ._errors import SessionError
from ._header import SessionHeader, checked_header, make_header, now_ms
from ._lossless import check_lossless
from ._requests import canonical_header
from ._seed import check_retired, replay_seed
from ._surface import SURFACE_TYPES, History, SurfaceManager
from ._view import AnyEvent, Prefix
from ._vocabulary import (
    END_SEED,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    EndSeed,
    EpochHeader,
    RequestContext,
)

D = TypeVar("D")

Publish: TypeAlias = Callable[[AnyEvent], Callable[[], None]]
"""Resolves who hears of an event, and may refuse it by raising; the result tells them."""

_LATEST: Final = frozenset({REQUEST_CONTEXT.name, REQUEST_HEADER.name})


class Session:
    """One conversation as a log of events. Nothing here does I/O or waits.

    Make one with `create` or `from_restore`. A session that no store has entered is used the same
    way; nobody hears of its events.
    """

    __slots__ = (
        "__weakref__",
        "_history",
        "_latest",
        "_log",
        "_publish",
        "_publishing",
        "_view",
        "first_live_seq",
        "header",
        "id",
        "surface",
    )
    id: SessionId
    header: SessionHeader
    surface: SurfaceManager
    """Which events make up the conversation now. Read it only."""
    first_live_seq: int
    """How many events the session was made from; those from here on happened in this process."""

    def __init__(self, log: list[AnyEvent], header: SessionHeader, *, seeded: bool) -> None:
        """Takes ownership of `log`. For `create` and `from_restore`."""
        self.id = header.id
        self.header = header
        self.surface = SurfaceManager(log)
        self.first_live_seq = len(log)
        self._log = log
        self._view = Prefix(log, len(log))
        self._history = History(log, self.surface)
        self._publish: Publish | None = None
        self._publishing = False
        replay_seed(log, self.surface)
        self._latest: dict[str, AnyEvent] = {
            event.type: event for event in log if event.type in _LATEST
        }
        if seeded and not (log and END_SEED.of(log[-1])):
            data = EndSeed()
            raw = END_SEED.encode(data)
            log.append(SessionEvent(END_SEED.name, len(log), now_ms(), raw, END_SEED.decode))

    @classmethod
    def create(
        cls,
        session_id: SessionId | str,
        *,
        seed: Iterable[AnyEvent] | None = None,
        header: SessionHeader | None = None,
    ) -> Session:
        """A session, empty or started from `seed`. Without a header it gets one that says now.

        Raises `SessionError`: `INVALID_SEED` naming the index, `INVALID_HEADER`.
        """
        session_id = _checked_id(session_id)
        header = make_header(session_id) if header is None else checked_header(header, session_id)
        return cls(list(seed or ()), header, seeded=seed is not None)

    @classmethod
    def from_restore(
        cls, session_id: SessionId | str, *, seed: list[AnyEvent], header: SessionHeader
    ) -> Session:
        """A session from its stored log; takes ownership of `seed`. Errors as `create`."""
        session_id = _checked_id(session_id)
        return cls(seed, checked_header(header, session_id), seeded=True)

    @property
    def events(self) -> Sequence[AnyEvent]:
        """The log as it is now, without a copy. The same object until the next append."""
        view = self._view
        if len(view) != len(self._log):
            view = self._view = Prefix(self._log, len(self._log))
        return view

    @property
    def seq(self) -> int:
        """Length of the log, which is the seq of the next event."""
        return len(self._log)

    @overload
    def append(
        self,
        key: SurfaceEvent[D],
        data: D,
        *,
        surface_op: SurfaceOp,
        source_event_seqs: Iterable[int] | None = None,
        ignorable: bool = False,
    ) -> SessionEvent[D]: ...
    @overload
    def append(self, key: LogEvent[D], data: D, *, ignorable: bool = False) -> SessionEvent[D]: ...
    def append(
        self,
        key: SessionEventType[D],
        data: D,
        *,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: Iterable[int] | None = None,
        ignorable: bool = False,
    ) -> SessionEvent[D]:
        """Add an event and tell those who listen; returns once they were told.

        `surface_op` places an event of the conversation. `ignorable` lets readers that do not know
        the type skip it. Listeners cannot fail an append; one that refuses it beforehand does.
        Raises `SessionError` and changes nothing: `INVALID_PAYLOAD`, `INVALID_SURFACE`,
        `RETIRED_EVENT`, `REENTRANT_APPEND` (a listener of the event being published).
        """
        name = key.name
        raw, data = _snapshot(key, data)
        sources = None if source_event_seqs is None else tuple(source_event_seqs)
        if self._publishing:
            raise SessionError(
                f"{name} cannot be appended while another event of the session is published; "
                "append after the listener has returned",
                code="REENTRANT_APPEND",
            )
        log = self._log
        event = SessionEvent(
            name, len(log), now_ms(), raw, key.decode, surface_op, sources, ignorable, data
        )
        replacement = None
        if name in SURFACE_TYPES or surface_op is not None or sources is not None:
            _check_op(name, surface_op)
            replacement = self.surface.check(event)
        publish = self._publish
        if publish is None:
            self._commit(event, replacement)
            return event
        self._publishing = True
        try:
            tell = publish(event)
            self._commit(event, replacement)
            tell()
        finally:
            self._publishing = False
        return event

    def request_header(self) -> EpochHeader | None:
        """The header of the requests that follow, in canonical form; None before the first."""
        event = self._latest.get(REQUEST_HEADER.name)
        return None if event is None else canonical_header(event.data.header)

    def request_context(self) -> RequestContext | None:
        """The route and capacity that hold now; None before the first."""
        event = self._latest.get(REQUEST_CONTEXT.name)
        return None if event is None else event.data

    def derive_messages(self) -> tuple[Message, ...]:
        """The conversation as a model gets it. Only events since the last call are looked at."""
        return self._history.messages()

    def attach(self, publish: Publish | None) -> None:
        """Set who is told of appends; None for nobody. For the store that enters the session."""
        self._publish = publish

    @property
    def attached(self) -> bool:
        """Whether a store has entered it."""
        return self._publish is not None

    @property
    def publishing(self) -> bool:
        """Whether an append is being told right now."""
        return self._publishing

    def _commit(self, event: AnyEvent, replacement: Any) -> None:  # noqa: ANN401 - passed on
        self._log.append(event)
        if event.surface_op is not None:
            self.surface.apply(event, replacement)
        elif event.type in _LATEST:
            self._latest[event.type] = event

    def __repr__(self) -> str:
        return f"<Session {self.id!r}, {len(self._log)} events>"


def _checked_id(session_id: SessionId | str) -> SessionId:
    if not session_id:
        raise SessionError("a session id may not be empty", code="INVALID_HEADER")
    return SessionId(session_id)


def _check_op(name: str, surface_op: object) -> None:
    if surface_op is not None and surface_op != "append" and type(surface_op) is not Replace:
        raise SessionError(
            f"{name}: surface_op {surface_op!r} is neither 'append' nor Replace(start, end)",
            code="INVALID_SURFACE",
        )


def _snapshot(key: SessionEventType[D], data: D) -> tuple[bytes, D]:
    """The payload's bytes and a frozen copy made from them."""
    name = key.name
    check_retired(name)
    try:
        if not isinstance(data, key.payload):
            raise TypeError(f"it takes {key.payload.__name__}, not {type(data).__name__}")  # noqa: TRY301 - one error for all
        raw = key.encode(data)
        copy = key.decode(raw)
        # Equal means that nothing was lost. Unequal is fine for a list that became a tuple, not for
        # a NaN that became null; finding out which is slow and rare.
        if copy != data:
            check_lossless(data)
    except (CordisError, msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise SessionError(f"{name} cannot be appended: {error}", code="INVALID_PAYLOAD") from error
    return raw, copy
