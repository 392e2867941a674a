"""One event as one line of JSON, and back."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec
from dsh_lossless_json import encode
from msgspec import UNSET, Meta, Raw, UnsetType

from ._envelope import Replace, SessionEvent
from ._errors import SessionError
from ._header import Count
from ._types import SessionEventTypes

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _EventLine(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"source_event_seqs": "sourceEventSeqs", "surface_op": "surfaceOp"},
):
    """The envelope as it is written: closed, with the payload left as it is."""

    type: Annotated[str, Meta(min_length=1)]
    seq: Count
    time: int
    data: Raw
    ignorable: Literal[True] | UnsetType = UNSET
    source_event_seqs: tuple[int, ...] | UnsetType = UNSET
    surface_op: Literal["append"] | Replace | UnsetType = UNSET


_DECODER: Final = msgspec.json.Decoder(_EventLine)


@lru_cache(maxsize=256)
def _line_start(kind: str) -> bytes:
    return b'{"type":%b,"seq":' % encode(kind)


def encode_event_line(event: SessionEvent[Any]) -> bytes:
    """The event as compact JSON without a newline; the payload byte for byte as it was."""
    line = b'%b%d,"time":%d,"data":%b' % (
        _line_start(event.type),
        event.seq,
        event.time,
        event.raw,
    )
    if event.ignorable:
        line += b',"ignorable":true'
    if event.source_event_seqs is not None:
        line += b',"sourceEventSeqs":' + encode(event.source_event_seqs)
    if event.surface_op is not None:
        line += b',"surfaceOp":' + encode(event.surface_op)
    return line + b"}"


def decode_event_line(line: bytes, types: SessionEventTypes) -> SessionEvent[Any]:
    """The event of one line. The payload is not looked at before `data` is.

    Raises `SessionError` with code `MALFORMED_EVENT`; lone surrogates are no reason: see
    `repaired_line`.
    """
    try:
        str(line, "utf-8")  # the decoder does not look into the payload
        return _event_of(_DECODER.decode(line), types)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SessionError(f"not an event: {error}", code="MALFORMED_EVENT") from error


def _event_of(line: _EventLine, types: SessionEventTypes) -> SessionEvent[Any]:
    """The event that a decoded envelope describes."""
    sources, surface_op = line.source_event_seqs, line.surface_op
    return SessionEvent(
        line.type,
        line.seq,
        line.time,
        bytes(line.data),
        types.decoder(line.type),
        None if surface_op is UNSET else surface_op,
        None if sources is UNSET else sources,
        line.ignorable is True,
    )


def repaired_line(line: bytes) -> bytes | None:
    """`line` with lone surrogates replaced by U+FFFD; None if those are not its problem.

    Other writers of this format could store half of a character; strict parsers refuse the whole
    line for it.
    """
    try:
        text = line.decode("utf-8", "surrogatepass")
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    fixed, count = _SURROGATE.subn("\ufffd", compact)
    return fixed.encode() if count else None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
