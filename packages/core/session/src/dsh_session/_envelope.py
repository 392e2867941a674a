"""The envelope of a logged event and the typed keys of event types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias, TypeGuard, TypeVar

import msgspec
from dsh_cordis import Key
from dsh_lossless_json import decoder, encode

from ._errors import SessionError

D = TypeVar("D")
D_co = TypeVar("D_co", covariant=True)


class Replace(
    msgspec.Struct, frozen=True, tag_field="op", tag="replace", forbid_unknown_fields=True
):
    """Puts the event in the place of the surface nodes from `start` to `end`, both inclusive."""

    start: int
    end: int


SurfaceOp: TypeAlias = Literal["append"] | Replace


# A Struct rather than a class with slots: five times cheaper to make, and outside the collector,
# which matters for a log of a hundred thousand. It can be, as nothing in it points back.
class SessionEvent(msgspec.Struct, Generic[D_co], frozen=True, eq=False, gc=False):
    """One event of a session log; immutable, equal only to itself.

    `raw` holds the payload's JSON as it was written or read. `data` is that payload decoded into
    the registered type, on first access.
    """

    type: str
    seq: int
    """Position in the log, from 0."""
    time: int
    """Epoch milliseconds."""
    raw: bytes
    decode: Callable[[bytes], D_co]
    """How `raw` becomes `data`."""
    surface_op: SurfaceOp | None = None
    source_event_seqs: tuple[int, ...] | None = None
    """Earlier events that this one was made from; None means unrecorded."""
    ignorable: bool = False
    """Whether a reader that does not know the type may skip the event."""
    _data: D_co | None = None

    @property
    def data(self) -> D_co:
        """The payload. Events of a type nobody here knows give frozen JSON data.

        Raises `msgspec.DecodeError` or `LosslessJsonError` if what was read does not fit the type.
        """
        data = self._data
        if data is None:
            data = self.decode(self.raw)
            msgspec.structs.force_setattr(self, "_data", data)
        return data

    def __repr__(self) -> str:
        return f"SessionEvent({self.type!r}, seq={self.seq})"


class SessionEventType(Key, Generic[D]):
    """Names an event type and its payload class: `TODO_WRITE = LogEvent("todo/write", TodoWrite)`.

    `KEY.of(event)` narrows an event to the payload. One name has one payload class, which a reload
    of its module may bring anew; another class raises SessionError (EVENT_TYPE_TAKEN).
    """

    __slots__ = ("decode", "payload")
    payload: type[D]

    def __init__(self, name: str, payload: type[D]) -> None:
        if hasattr(self, "payload") and _path(self.payload) != _path(payload):
            raise SessionError(
                f"event type {name!r} is defined already, with payload {_path(self.payload)}",
                code="EVENT_TYPE_TAKEN",
            )
        super().__init__(name)
        self.payload = payload
        self.decode = decoder(payload).decode

    def encode(self, data: D) -> bytes:
        """The payload's JSON. Raises `LosslessJsonError`."""
        return encode(data)

    def of(self, event: SessionEvent[Any]) -> TypeGuard[SessionEvent[D]]:
        """Whether `event` is of this type."""
        return event.type == self.name


def _path(payload: type[Any]) -> str:
    return f"{payload.__module__}.{payload.__qualname__}"


class LogEvent(SessionEventType[D]):
    """An event that only the log holds."""

    __slots__ = ()


class SurfaceEvent(SessionEventType[D]):
    """An event of the conversation: it carries a `surface_op` and may show as a message."""

    __slots__ = ()
