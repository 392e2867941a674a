from __future__ import annotations

from itertools import pairwise

import pytest
from dsh_llm import LlmError
from dsh_llm_deepseek._sse import MAX_EVENT_BYTES, SseParser
from hypothesis import given, settings
from hypothesis import strategies as st


def parsed(*pieces: bytes) -> list[bytes]:
    parser = SseParser()
    return [payload for piece in pieces for payload in parser.feed(piece)]


def test_events_are_separated_by_blank_lines() -> None:
    assert parsed(b'data: {"a":1}\n\ndata:{"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


def test_lines_of_one_event_are_joined() -> None:
    assert parsed(b"data: one\ndata: two\n\n") == [b"one\ntwo"]


def test_comments_and_other_fields_yield_nothing() -> None:
    stream = b": keep-alive\n\nevent: x\nid: 3\nretry: 5\n\n:\n\ndata: x\n\n"
    assert parsed(stream) == [b"x"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_is_understood(end: bytes) -> None:
    assert parsed(b"data: a" + end + end + b"data: b" + end + end) == [b"a", b"b"]


@pytest.mark.parametrize("cut", [0, 1, 3, 5])
def test_a_byte_order_mark_is_no_part_of_the_first_event(cut: int) -> None:
    stream = b"\xef\xbb\xbfdata: x\n\n"
    assert parsed(stream[:cut], stream[cut:]) == [b"x"]


def test_the_end_mark_counts_with_its_line_end_and_not_without() -> None:
    assert parsed(b"data: [DONE]\n") == [b"[DONE]"]
    assert parsed(b"data: [DONE]") == []


def test_an_unfinished_event_yields_nothing() -> None:
    assert parsed(b'data: {"a":1}\n') == []


def test_an_event_without_end_is_refused() -> None:
    parser = SseParser()
    parser.feed(b"data: ")
    with pytest.raises(LlmError) as caught:
        parser.feed(b"x" * (MAX_EVENT_BYTES + 1))
    assert caught.value.code == "MALFORMED_RESPONSE"


LINES = st.sampled_from(
    [
        b'data: {"choices":[]}',
        'data: {"x":"é😀"}'.encode(),
        b"data:",
        b"data: ",
        b"data: [DONE]",
        b"data",
        b": keep-alive",
        b"event: message",
        b"",
        b"",
        b"garbage \xff\xfe",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(
    lambda pairs: b"".join(line + end for line, end in pairs)
)


@settings(deadline=None)
@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_split_of_the_bytes_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert parsed(*pieces) == parsed(stream)
    assert parsed(*(stream[i : i + 1] for i in range(len(stream)))) == parsed(stream)


@settings(deadline=None)
@given(stream=STREAMS)
def test_line_ends_do_not_change_the_events(stream: bytes) -> None:
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert parsed(stream) == parsed(plain)
