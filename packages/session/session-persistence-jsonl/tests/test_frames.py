"""Frames found by their structure."""

from __future__ import annotations

import io

import pytest
import zstandard
from dsh_session_persistence_jsonl._frames import (
    FrameError,
    compress,
    decompress,
    decompress_torn,
    find_frames,
)
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.binary(max_size=300), max_size=5), st.data())
def test_every_cut_gives_the_whole_frames_before_it(
    contents: list[bytes], data: st.DataObject
) -> None:
    frames = [compress(content) for content in contents]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    found = find_frames(whole[:cut])
    assert found.error is None
    ends = [sum(map(len, frames[: n + 1])) for n in range(len(frames))]
    complete = [end for end in ends if end <= cut]
    assert [end for _, end in found.spans] == complete
    at_boundary = cut == (complete[-1] if complete else 0)
    assert found.torn == (None if at_boundary else (complete[-1] if complete else 0))
    assert decompress(whole, found.spans) == contents[: len(complete)]


def streamed(content: bytes, *, checksum: bool = True) -> bytes:
    """A frame as other writers make it: no content size, several blocks."""
    out = io.BytesIO()
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=False)
    with compressor.stream_writer(out, closefd=False) as writer:
        for start in range(0, len(content), 1000):
            writer.write(content[start : start + 1000])
            writer.flush(zstandard.FLUSH_BLOCK)
    return out.getvalue()


@pytest.mark.parametrize("checksum", [True, False])
def test_frames_of_other_writers_are_read(checksum: bool) -> None:
    content = bytes(range(256)) * 20
    data = streamed(content, checksum=checksum) + compress(b"x") + streamed(b"")
    found = find_frames(data)
    assert decompress(data, found.spans) == [content, b"x", b""]
    assert found.torn is None


def test_repeated_bytes_make_a_run_length_block() -> None:
    data = compress(b"a" * 500_000)
    assert find_frames(data).spans == [(0, len(data))]


def test_what_is_no_frame_is_an_error_at_its_byte() -> None:
    data = compress(b"x")
    found = find_frames(data + b"garbage")
    assert found.spans == [(0, len(data))]
    assert f"byte {len(data)}" in str(found.error)
    reserved = bytearray(data)
    reserved[4] |= 0x08
    assert find_frames(bytes(reserved)).error is not None
    invalid = bytearray(data)
    invalid[6] |= 0x06
    assert find_frames(bytes(invalid)).error is not None


@pytest.mark.parametrize("tail", [b"\x28", b"\x28\xb5", b"\x28\xb5\x2f", b"\0" * 9])
def test_a_beginning_or_zeros_at_the_end_are_torn(tail: bytes) -> None:
    data = compress(b"x")
    found = find_frames(data + tail)
    assert (found.torn, found.error) == (len(data), None)


def test_a_wrong_checksum_is_an_error() -> None:
    data = bytearray(compress(b"some content"))
    data[-1] ^= 1
    with pytest.raises(FrameError, match="byte 0"):
        decompress(bytes(data), [(0, len(data))])


def test_what_is_there_of_a_torn_frame_is_decoded() -> None:
    data = compress(b"line one\nline two\n")
    assert decompress_torn(data[:-1], 0) == b"line one\nline two\n"
    assert decompress_torn(data[:5], 0) == b""
    assert decompress_torn(b"\x28\xb5", 0) == b""
