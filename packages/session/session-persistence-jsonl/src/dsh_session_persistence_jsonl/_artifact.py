"""Reads one artifact."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from dsh_session import AnyEvent, SessionEventTypes, SessionHeader
from dsh_session_persistence import (
    DecodedRecords,
    SessionPersistenceCorruptionError,
    StoredLog,
    collector_off,
    decode_records,
)

from ._frames import FrameError, decompress, decompress_torn, find_frames
from ._header import decode_header
from ._layout import ZSTD_NAME

_RETRIES: Final = 4
_HEAD_BYTES: Final = 4096
"""Enough for nearly every header."""


class Torn(msgspec.Struct, frozen=True):
    """An unfinished last write."""

    offset: int
    """Where it begins in the file."""
    kept: tuple[AnyEvent, ...]
    """Whole events in it, to be written again."""


class Artifact(msgspec.Struct, frozen=True):
    """What is in a file."""

    log: StoredLog
    size: int
    """Of the file when it was read."""
    text: bytes
    """All whole records, header included."""


def read_artifact(path: Path, types: SessionEventTypes) -> Artifact:
    """Read a whole log; damage after the header is reported in the result.

    Raises `SessionPersistenceCorruptionError` or `SessionFormatUnsupportedError` for the header.
    """
    data = read_stable(path)
    with collector_off():
        read = _read_zstd if path.name == ZSTD_NAME else _read_raw
        return read(path, data, types)


def read_header(path: Path) -> SessionHeader:
    """Just the header. Errors as above."""
    with _opened(path) as file:
        head = file.read(_HEAD_BYTES)
        line = _first_line(path, head)
        if line is None and len(head) == _HEAD_BYTES:
            line = _first_line(path, head + file.read())
    if line is None:
        raise _headless(path)
    return decode_header(line, path)


def read_stable(path: Path) -> bytes:
    """The bytes of a file that another process may be appending to."""
    with _opened(path) as file:
        before = _revision(file.fileno())
        data = file.read()
        for _ in range(_RETRIES):
            after = _revision(file.fileno())
            if after == before:
                break
            before = after
            file.seek(0)
            data = file.read()
        # A file that always grows: what was read is a log with a torn end at worst.
        return data


def _opened(path: Path) -> BinaryIO:
    # A pipe would be waited for, and a device read, for ever.
    if not stat.S_ISREG(path.stat().st_mode):
        raise SessionPersistenceCorruptionError(f"{path} is not a regular file")
    return path.open("rb")


def _headless(path: Path) -> SessionPersistenceCorruptionError:
    return SessionPersistenceCorruptionError(f"{path} ends before its header does")


def _first_line(path: Path, head: bytes) -> bytes | None:
    if path.name != ZSTD_NAME:
        end = head.find(b"\n") + 1
        return head[:end] if end else None
    frames = find_frames(head)
    try:
        if frames.error is not None and not frames.spans:
            raise frames.error
        content = decompress(head, frames.spans[:1])
    except FrameError as error:
        raise SessionPersistenceCorruptionError(f"{path} is damaged: {error}") from error
    if not content:
        return None
    return _header_line(path, content[0])


def _header_line(path: Path, content: bytes) -> bytes:
    if content.find(b"\n") != len(content) - 1:
        raise SessionPersistenceCorruptionError(
            f"{path} is damaged: its first frame is not one line"
        )
    return content


def _read_zstd(path: Path, data: bytes, types: SessionEventTypes) -> Artifact:
    frames = find_frames(data)
    contents, damage = _contents(path, data, frames.spans)
    if damage is None and frames.error is not None:
        damage = f"{path}, {frames.error}"
    if not contents:
        raise _headless(path) if damage is None else SessionPersistenceCorruptionError(damage)
    log = StoredLog(decode_header(_header_line(path, contents[0]), path))
    text = b"".join(contents)
    start = len(contents[0])
    decoded = decode_records(text[start:], types, first_line=2)
    log.events = decoded.events
    log.damage = _described(path, decoded) or damage
    if log.damage is None and frames.torn is not None:
        rest = decompress_torn(data, frames.torn)
        kept = decode_records(rest, types, first_seq=len(log.events)).events
        log.events.extend(kept)
        log.torn = Torn(frames.torn, tuple(kept))
    return Artifact(log, len(data), text[: start + decoded.end])


def _contents(
    path: Path, data: bytes, spans: list[tuple[int, int]]
) -> tuple[list[bytes], str | None]:
    """The contents up to the first bad frame, and what is wrong with that."""
    try:
        contents = decompress(data, spans)
    except FrameError as error:
        good: list[bytes] = []
        for span in spans:
            try:
                good += decompress(data, [span])
            except FrameError:
                break
        return good, f"{path}, {error}"
    for index, content in enumerate(contents):
        if not content.endswith(b"\n"):
            where = f"{path}, byte {spans[index][0]}"
            return contents[: index + 1], f"{where}: a frame ends in the middle of a record"
    return contents, None


def _read_raw(path: Path, data: bytes, types: SessionEventTypes) -> Artifact:
    start = data.find(b"\n") + 1
    if not start:
        raise _headless(path)
    log = StoredLog(decode_header(data[:start], path))
    decoded = decode_records(data[start:], types, first_line=2)
    log.events = decoded.events
    end = start + decoded.end
    if decoded.damage is not None and decoded.turn_ends_later:
        # What follows was written on purpose: the hole is in the middle.
        log.damage = _described(path, decoded)
    elif end < len(data):
        log.torn = Torn(end, ())
    return Artifact(log, len(data), data[:end])


def _described(path: Path, decoded: DecodedRecords) -> str | None:
    damage = decoded.damage
    return None if damage is None else f"{path}, line {damage.line}: {damage.reason}"


def _revision(descriptor: int) -> tuple[int, ...]:
    now = os.fstat(descriptor)
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
