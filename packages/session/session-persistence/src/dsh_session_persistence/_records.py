"""Batches of events as lines of JSON; runs of stream deltas are packed into rows."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from dsh_cordis import CordisError
from dsh_llm import ReasoningDelta, TextDelta, ToolCallDelta
from dsh_lossless_json import encode
from dsh_session import (
    ASSISTANT_CHUNK,
    AnyEvent,
    Replace,
    SessionEvent,
    SessionEventTypes,
    encode_event_line,
    repaired_line,
)
from msgspec import UNSET, Meta, Raw, UnsetType

_log = logging.getLogger("dsh.session-persistence")

MIN_RUN: Final = 3
"""Fewer deltas than this stay lines of their own."""

MAX_SAFE: Final = 2**53 - 1

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE)]
Time: TypeAlias = Annotated[int, Meta(ge=-MAX_SAFE, le=MAX_SAFE)]


class _Record(
    msgspec.Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    rename={"source_event_seqs": "sourceEventSeqs", "surface_op": "surfaceOp"},
):
    """Either an event or a row, told apart by `seq` or `seq0`; -1 means absent."""

    type: str
    data: Raw
    seq: Count = -1
    time: Time | UnsetType = UNSET
    seq0: Count = -1
    time0: Time | UnsetType = UNSET
    ignorable: Literal[True] | UnsetType = UNSET
    source_event_seqs: tuple[int, ...] | UnsetType = UNSET
    surface_op: Literal["append"] | Replace | UnsetType = UNSET


class _TextRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turn: int
    step: int
    index: int
    dt: tuple[int, ...]
    texts: tuple[str, ...]


class _ToolRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    turn: int
    step: int
    index: int
    id: str
    dt: tuple[int, ...]
    args: tuple[str, ...]
    name: str | UnsetType = UNSET


_TEXT, _REASONING, _TOOL = "text-chunks", "reasoning-chunks", "tool-call-chunks"

_RECORD: Final = msgspec.json.Decoder(_Record)
_TEXT_ROW: Final = msgspec.json.Decoder(_TextRow)
_TOOL_ROW: Final = msgspec.json.Decoder(_ToolRow)


class Damage(msgspec.Struct, frozen=True):
    """The first record that does not continue the log."""

    line: int
    """Counted from 1, over all records of the artifact."""
    offset: int
    """Where the record starts in the decoded bytes."""
    reason: str


class DecodedRecords(msgspec.Struct):
    """The events of a piece of a log, up to its first damage."""

    events: list[AnyEvent]
    end: int
    """Bytes up to the end of the last good record."""
    damage: Damage | None = None
    turn_ends_later: bool = False
    """Whether a readable record after the damage ends a turn."""


# -- writing ------------------------------------------------------------------------------------


def encode_records(events: Iterable[AnyEvent], *, pack: bool = True) -> bytes:
    """One line for each event or packed row, each with its newline."""
    out: list[bytes] = []
    run: _Run | None = None
    for event in events:
        if run is not None and run.take(event):
            continue
        if run is not None:
            run.write(out)
        run = _Run.start(event) if pack and event.type == ASSISTANT_CHUNK.name else None
        if run is None:
            out.append(encode_event_line(event))
    if run is not None:
        run.write(out)
    out.append(b"")
    return b"\n".join(out)


class _Run:
    """Consecutive deltas of one block."""

    __slots__ = ("_events", "_head", "_kind", "_row", "_texts", "_values")

    def __init__(self, kind: type[Any], row: str, head: bytes, values: bytes) -> None:
        self._kind = kind
        self._row = row
        self._head = head
        self._values = values
        self._events: list[AnyEvent] = []
        self._texts: list[bytes] = []

    @staticmethod
    def start(event: AnyEvent) -> _Run | None:
        """A run that begins with `event`; None if nothing can follow it in a row."""
        chunk = _chunk(event)
        if not isinstance(chunk, (TextDelta, ReasoningDelta, ToolCallDelta)):
            return None
        kind = type(chunk)
        data = event.data
        where = b'"turn":%d,"step":%d,"index":%d' % (data.turn, data.step, chunk.index)
        if isinstance(chunk, TextDelta):
            run = _Run(kind, _TEXT, _text_head(data.turn, data.step, _TEXT, chunk.index), where)
        elif isinstance(chunk, ReasoningDelta):
            head = _text_head(data.turn, data.step, _REASONING, chunk.index)
            run = _Run(kind, _REASONING, head, where)
        else:
            head = _tool_head(data.turn, data.step, chunk.index, chunk.id, chunk.name)
            call = b',"id":' + encode(chunk.id)
            if chunk.name is not UNSET:
                call += b',"name":' + encode(chunk.name)
            run = _Run(kind, _TOOL, head, where + call)
        return run if run.take(event) else None

    def take(self, event: AnyEvent) -> bool:
        """Whether `event` continues the run; then it is part of it."""
        if event.type != ASSISTANT_CHUNK.name or event.ignorable:
            return False
        chunk = _chunk(event)
        if type(chunk) is not self._kind:  # pyright: ignore[reportUnknownArgumentType]
            return False
        events = self._events
        if events and event.seq != events[-1].seq + 1:
            return False
        text = encode(chunk.arguments_delta if self._row == _TOOL else chunk.text)
        # Comparing the bytes makes sure that unpacking gives back exactly this payload, whoever
        # wrote it: same turn, step, index and call, and no further keys.
        if event.raw != b"%b%b}}" % (self._head, text):
            return False
        events.append(event)
        self._texts.append(text)
        return True

    def write(self, out: list[bytes]) -> None:
        """The run as one row, or as lines if it is too short."""
        events = self._events
        if len(events) < MIN_RUN:
            out.extend(map(encode_event_line, events))
            return
        gaps = (b"%d" % (later.time - event.time) for event, later in pairwise(events))
        row = b'{"type":"%b","seq0":%d,"time0":%d,"data":{%b,"dt":[%b],"%b":[%b]}}' % (
            self._row.encode(),
            events[0].seq,
            events[0].time,
            self._values,
            b",".join(gaps),
            b"args" if self._row == _TOOL else b"texts",
            b",".join(self._texts),
        )
        out.append(row)


def _chunk(event: AnyEvent) -> Any:  # noqa: ANN401 - one of the deltas, or whatever was read
    try:
        return event.data.chunk
    except (msgspec.DecodeError, CordisError):
        # Read from a log of someone else's: it is written back as it is.
        return None


def _text_head(turn: int, step: int, row: str, index: int) -> bytes:
    tag = b"text-delta" if row == _TEXT else b"reasoning-delta"
    return b'{"turn":%d,"step":%d,"chunk":{"type":"%b","index":%d,"text":' % (
        turn,
        step,
        tag,
        index,
    )


def _tool_head(turn: int, step: int, index: int, call_id: str, name: str | UnsetType) -> bytes:
    head = b'{"turn":%d,"step":%d,"chunk":{"type":"tool-call-delta","index":%d,"id":%b' % (
        turn,
        step,
        index,
        encode(call_id),
    )
    if name is not UNSET:
        head += b',"name":' + encode(name)
    return head + b',"argumentsDelta":'


# -- reading ------------------------------------------------------------------------------------


def decode_records(
    buffer: bytes, types: SessionEventTypes, *, first_seq: int = 0, first_line: int = 1
) -> DecodedRecords:
    """The events of whole lines. An unterminated last line is left alone.

    A line that only fails for lone surrogates is read with those replaced, and logged.
    """
    end = buffer.rfind(b"\n") + 1
    reader = _Reader(types, first_seq)
    lines = buffer[:end]
    try:
        # The decoder does not look into payloads, where it would pass by bytes that are no text.
        str(lines, "utf-8")
        for record in _RECORD.decode_lines(lines):
            reader.add(record)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        # Once more, line by line: to find the place, and what can be read in spite of it.
        return _decode_lines(buffer, end, _Reader(types, first_seq), first_line)
    return DecodedRecords(reader.events, end)


def _decode_lines(buffer: bytes, end: int, reader: _Reader, first_line: int) -> DecodedRecords:
    position, line_number = 0, first_line
    result = DecodedRecords(reader.events, 0)
    while position < end:
        stop = buffer.index(b"\n", position)
        line = buffer[position:stop]
        if result.damage is None:
            reason = _read_line(line, reader, line_number)
            if reason is None:
                result.end = stop + 1
            else:
                result.damage = Damage(line_number, position, reason)
        if result.damage is not None and _ends_turn(line):
            result.turn_ends_later = True
            break
        position, line_number = stop + 1, line_number + 1
    return result


def _read_line(line: bytes, reader: _Reader, number: int) -> str | None:
    """Reads one record; what is wrong with it, or None."""
    if not line.strip():
        return None
    try:
        record = _decode_line(line, number)
        reader.add(record)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        return str(error)
    return None


def _decode_line(line: bytes, number: int) -> _Record:
    try:
        str(line, "utf-8")
        return _RECORD.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        repaired = repaired_line(line)
        if repaired is None:
            raise
        record = _RECORD.decode(repaired)
        _log.warning("line %d held halves of characters; they are read as U+FFFD", number)
        return record


def _ends_turn(line: bytes) -> bool:
    try:
        return _RECORD.decode(line).type == "turn/end"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class _Reader:
    """Turns records into events and watches their numbers."""

    __slots__ = ("_decoders", "_next", "_types", "events")

    def __init__(self, types: SessionEventTypes, first_seq: int) -> None:
        self._types = types
        self._decoders: dict[str, Callable[[bytes], Any]] = {}
        self._next = first_seq
        self.events: list[AnyEvent] = []

    def add(self, record: _Record) -> None:
        """The next record. Raises `ValueError` if it does not continue the log or is malformed."""
        kind, time = record.type, record.time
        if record.seq < 0 or time is UNSET:
            self._add_row(record)
            return
        if record.seq != self._next:
            raise ValueError(f"expected event {self._next}, found event {record.seq}")
        if record.seq0 >= 0 or record.time0 is not UNSET or not kind:
            raise ValueError("it is neither an event nor a row")
        decode = self._decoders.get(kind)
        if decode is None:
            decode = self._decoders[kind] = self._types.decoder(kind)
        op, sources = record.surface_op, record.source_event_seqs
        self.events.append(
            SessionEvent(
                kind,
                record.seq,
                time,
                bytes(record.data),
                decode,
                None if op is UNSET else op,
                None if sources is UNSET else sources,
                record.ignorable is True,
            )
        )
        self._next += 1

    def _add_row(self, record: _Record) -> None:
        seq, time = record.seq0, record.time0
        bare = (
            record.seq < 0
            and record.time is UNSET
            and record.ignorable is UNSET
            and record.source_event_seqs is UNSET
            and record.surface_op is UNSET
        )
        if seq < 0 or time is UNSET or not bare:
            raise ValueError("it is neither an event nor a row")
        if seq != self._next:
            raise ValueError(f"expected event {self._next}, found a row that starts at {seq}")
        head, gaps, texts = _unpack(record)
        if not texts or len(gaps) != len(texts) - 1:
            raise ValueError(f"a row of {len(texts)} members has {len(gaps)} gaps")
        name, decode = ASSISTANT_CHUNK.name, ASSISTANT_CHUNK.decode
        add = self.events.append
        for text, at in zip(texts, accumulate(gaps, initial=time), strict=True):
            add(SessionEvent(name, seq, at, b"%b%b}}" % (head, encode(text)), decode))
            seq += 1
        self._next = seq


def _unpack(record: _Record) -> tuple[bytes, tuple[int, ...], tuple[str, ...]]:
    if record.type in (_TEXT, _REASONING):
        row = _TEXT_ROW.decode(record.data)
        return _text_head(row.turn, row.step, record.type, row.index), row.dt, row.texts
    if record.type == _TOOL:
        tool = _TOOL_ROW.decode(record.data)
        head = _tool_head(tool.turn, tool.step, tool.index, tool.id, tool.name)
        return head, tool.dt, tool.args
    raise ValueError(f"{record.type!r} is no kind of row")


@contextmanager
def collector_off() -> Generator[None]:
    """For loading a log: many new objects, none of them garbage, and looking is what costs."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
