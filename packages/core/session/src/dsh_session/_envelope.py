"""The envelope of a logged event and the typed keys of event types."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeGuard, TypeVar

import msgspec
from dsh_cordis import Key
from dsh_lossless_json import decoder, encode

D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)


class Replace(msgspec.Struct, frozen=True, tag_field="op", tag="replace"):
    """Puts the event in the place of the surface nodes from `start` to `end`, both inclusive."""

    start: int
    end: int


SurfaceOp: TypeAlias = Literal["append"] | Replace


class SessionEvent(Generic[D_co]):
    """One event of a session log; immutable.

    `raw` holds the payload's JSON as it was written or read. `data` is that payload decoded into
    the registered type, on first access.
    """

    __slots__ = (
        "_data",
        "_type",
        "ignorable",
        "raw",
        "seq",
        "source_event_seqs",
        "surface_op",
        "time",
        "type",
    )
    type: str
    seq: int
    """Position in the log, from 0."""
    time: int
    """Epoch milliseconds."""
    raw: bytes
    source_event_seqs: tuple[int, ...] | None
    """Earlier events that this one was made from; None means unrecorded."""
    surface_op: SurfaceOp | None
    ignorable: bool
    """Whether a reader that does not know the type may skip the event."""

    def __init__(
        self,
        kind: SessionEventType[D_co] | None,
        name: str,
        *,
        seq: int,
        time: int,
        raw: bytes,
        data: D_co | None = None,
        surface_op: SurfaceOp | None = None,
        source_event_seqs: tuple[int, ...] | None = None,
        ignorable: bool = False,
    ) -> None:
        self._type = kind
        self._data = data
        self.type = name
        self.seq = seq
        self.time = time
        self.raw = raw
        self.surface_op = surface_op
        self.source_event_seqs = source_event_seqs
        self.ignorable = ignorable

    @property
    def data(self) -> D_co:
        """The payload. Events of a type nobody here knows give plain JSON data."""
        data = self._data
        if data is None:
            kind = self._type
            data = self._data = kind.decode(self.raw) if kind else msgspec.json.decode(self.raw)
        return data

    def __repr__(self) -> str:
        return f"SessionEvent({self.type!r}, seq={self.seq})"


class SessionEventType(Key, Generic[D]):
    """Names an event type and its payload class: `TODO_WRITE = LogEvent("todo/write", TodoWrite)`.

    `KEY.of(event)` narrows an event to the payload.
    """

    __slots__ = ("decode", "payload")
    payload: type[D]

    def __init__(self, name: str, payload: type[D]) -> None:
        super().__init__(name)
        self.payload = payload
        self.decode = decoder(payload).decode

    def encode(self, data: D) -> bytes:
        """The payload's JSON. Raises `LosslessJsonError`."""
        return encode(data)

    def of(self, event: SessionEvent[Any]) -> TypeGuard[SessionEvent[D]]:
        """Whether `event` is of this type."""
        return event.type == self.name


class LogEvent(SessionEventType[D]):
    """An event that only the log holds."""

    __slots__ = ()


class SurfaceEvent(SessionEventType[D]):
    """An event of the conversation: it carries a `surface_op` and may show as a message."""

    __slots__ = ()
