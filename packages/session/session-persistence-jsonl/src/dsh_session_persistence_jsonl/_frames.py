"""Concatenated zstd frames, found by their structure (RFC 8878)."""

from __future__ import annotations

from typing import Final

import msgspec

MAGIC: Final = b"\x28\xb5\x2f\xfd"

_RESERVED: Final = 0x18
_CHECKSUM: Final = 0x04
_SINGLE_SEGMENT: Final = 0x20
_DICTIONARY_ID: Final = (0, 1, 2, 4)
_BLOCK_RLE, _BLOCK_INVALID = 1, 3


class FrameError(Exception):
    """The bytes at `offset` are no frame, or one with other content than it was written with."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset}: {reason}")


class Frames(msgspec.Struct, frozen=True):
    """The frames of a file."""

    spans: list[tuple[int, int]]
    """Start and end of each whole frame."""
    torn: int | None = None
    """Where a frame starts that the file ends in; None if it ends with a whole one."""
    error: FrameError | None = None
    """What stands after the last of them, if that is no frame."""


def find_frames(data: bytes) -> Frames:
    """Walk over the frames without decoding them."""
    spans: list[tuple[int, int]] = []
    start, size = 0, len(data)
    while start < size:
        if data[start : start + 4] != MAGIC:
            rest = data[start:]
            # A write that a power cut stopped leaves a part of it, or zeros where it would be.
            if MAGIC.startswith(rest) or not rest.strip(b"\0"):
                return Frames(spans, start)
            return Frames(spans, error=FrameError(start, "no frame starts here"))
        try:
            end = _frame_end(data, start)
        except FrameError as error:
            return Frames(spans, error=error)
        if end is None:
            return Frames(spans, start)
        spans.append((start, end))
        start = end
    return Frames(spans)


def _frame_end(data: bytes, start: int) -> int | None:
    """Where the frame ends; None if the data ends first."""
    size = len(data)
    position = start + 4
    if position >= size:
        return None
    descriptor = data[position]
    if descriptor & _RESERVED:
        raise FrameError(start, "a frame with reserved bits")
    single = bool(descriptor & _SINGLE_SEGMENT)
    content_size = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    position += 1 + (0 if single else 1) + _DICTIONARY_ID[descriptor & 3] + content_size
    last = False
    while not last:
        if position + 3 > size:
            return None
        block = int.from_bytes(data[position : position + 3], "little")
        last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
        if kind == _BLOCK_INVALID:
            raise FrameError(start, "a frame with an invalid block")
        position += 3 + (1 if kind == _BLOCK_RLE else length)
    position += 4 if descriptor & _CHECKSUM else 0
    return position if position <= size else None


def compress(content: bytes) -> bytes:
    """One frame with a checksum."""
    import zstandard  # not before something is stored

    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


def decompress(data: bytes, spans: list[tuple[int, int]]) -> list[bytes]:
    """The content of each whole frame. Raises `FrameError` for a checksum that does not match."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    contents: list[bytes] = []
    for start, end in spans:
        frame = data[start:end]
        try:
            if zstandard.frame_content_size(frame) >= 0:
                contents.append(decompressor.decompress(frame))
            else:
                contents.append(decompressor.decompressobj().decompress(frame))
        except zstandard.ZstdError as error:
            raise FrameError(start, str(error)) from error
    return contents


def decompress_torn(data: bytes, start: int) -> bytes:
    """What can be decoded of a frame whose end is missing."""
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data[start:])
    except zstandard.ZstdError:
        return b""
