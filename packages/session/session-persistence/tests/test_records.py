"""Batches of lines and packed rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsh_llm import Finish, ReasoningDelta, Stop, TextDelta, ToolCallDelta
from dsh_session import ASSISTANT_CHUNK, AssistantChunk, SessionEvent, SessionEventTypes
from dsh_session_persistence import decode_records, encode_records
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

TYPES = SessionEventTypes(dict)


def chunk_event(seq: int, chunk: Any, *, time: int = 1000, turn: int = 1, step: int = 2) -> Any:
    raw = ASSISTANT_CHUNK.encode(AssistantChunk(turn, step, chunk))
    return SessionEvent("assistant/chunk", seq, time, raw, ASSISTANT_CHUNK.decode)


def facts(events: Any) -> list[tuple[Any, ...]]:
    return [
        (e.type, e.seq, e.time, e.raw, e.surface_op, e.source_event_seqs, e.ignorable)
        for e in events
    ]


def lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in content.splitlines()]


def test_a_run_of_deltas_is_one_row_in_the_shared_format() -> None:
    events = [
        chunk_event(9, TextDelta(0, "al"), time=1790000000500),
        chunk_event(10, TextDelta(0, "pha"), time=1790000000512),
        chunk_event(11, TextDelta(0, " x"), time=1790000000512),
    ]
    content = encode_records(events)
    assert content == (
        b'{"type":"text-chunks","seq0":9,"time0":1790000000500,"data":'
        b'{"turn":1,"step":2,"index":0,"dt":[12,0],"texts":["al","pha"," x"]}}\n'
    )
    assert facts(decode_records(content, TYPES, first_seq=9).events) == facts(events)


@pytest.mark.parametrize("count", [1, 2])
def test_short_runs_stay_lines(count: int) -> None:
    events = [chunk_event(seq, TextDelta(0, "x")) for seq in range(count)]
    assert [line["type"] for line in lines(encode_records(events))] == ["assistant/chunk"] * count


def test_packing_can_be_switched_off() -> None:
    events = [chunk_event(seq, TextDelta(0, "x")) for seq in range(5)]
    assert len(lines(encode_records(events))) == 1
    assert len(lines(encode_records(events, pack=False))) == 5


def test_rows_end_where_the_block_changes() -> None:
    chunks = [
        *[ReasoningDelta(0, "r")] * 3,
        *[TextDelta(1, "t")] * 3,
        *[TextDelta(2, "t")] * 3,
        *[ToolCallDelta(3, "c1", "bash", "{")] * 3,
        *[ToolCallDelta(3, "c1", UNSET, "x")] * 3,
        *[ToolCallDelta(4, "c2", UNSET, "}")] * 3,
        Finish(Stop()),
    ]
    events = [chunk_event(seq, chunk) for seq, chunk in enumerate(chunks)]
    content = encode_records(events)
    assert [(row["type"], row.get("seq0")) for row in lines(content)] == [
        ("reasoning-chunks", 0),
        ("text-chunks", 3),
        ("text-chunks", 6),
        ("tool-call-chunks", 9),
        ("tool-call-chunks", 12),
        ("tool-call-chunks", 15),
        ("assistant/chunk", None),
    ]
    assert "name" not in lines(content)[4]["data"]
    assert facts(decode_records(content, TYPES).events) == facts(events)


def test_a_payload_with_further_keys_is_not_packed() -> None:
    odd = b'{"turn":1,"step":2,"chunk":{"type":"text-delta","index":0,"text":"x","extra":1}}'
    events = [chunk_event(seq, TextDelta(0, "x")) for seq in range(4)]
    events[2] = SessionEvent("assistant/chunk", 2, 1000, odd, ASSISTANT_CHUNK.decode)
    content = encode_records(events)
    assert len(lines(content)) == 4
    assert facts(decode_records(content, TYPES).events) == facts(events)


chunks = st.one_of(
    st.builds(TextDelta, st.integers(0, 1), st.text(max_size=6)),
    st.builds(ReasoningDelta, st.integers(0, 1), st.text(max_size=6)),
    st.builds(
        ToolCallDelta,
        st.integers(0, 1),
        st.sampled_from(["c1", 'c"2']),
        st.sampled_from([UNSET, "bash"]),
        st.text(max_size=6),
    ),
    st.builds(Finish, st.builds(Stop)),
)
runs = st.lists(
    st.tuples(chunks, st.integers(1, 6), st.integers(-50, 50), st.integers(1, 2)), max_size=12
)


@given(runs=runs, first=st.integers(0, 10**6), pack=st.booleans())
def test_whatever_is_packed_is_unpacked_byte_for_byte(
    runs: list[Any], first: int, pack: bool
) -> None:
    events: list[Any] = []
    time = 1_790_000_000_000
    for chunk, count, gap, turn in runs:
        for _ in range(count):
            time += gap
            events.append(chunk_event(first + len(events), chunk, time=time, turn=turn))
    content = encode_records(events, pack=pack)
    decoded = decode_records(content, TYPES, first_seq=first)
    assert decoded.damage is None
    assert decoded.end == len(content)
    assert facts(decoded.events) == facts(events)
    assert [event.data for event in decoded.events] == [event.data for event in events]


@pytest.mark.parametrize(
    "data",
    [
        {"turn": 1, "step": 1, "index": 0, "dt": [1], "texts": ["a"]},
        {"turn": 1, "step": 1, "index": 0, "dt": [], "texts": []},
        {"turn": 1, "step": 1, "index": 0, "dt": [1], "texts": ["a", 2]},
        {"turn": 1, "step": 1, "index": 0, "dt": [1], "texts": ["a", "b"], "x": 1},
        {"turn": 1, "step": 1, "dt": [1], "texts": ["a", "b"]},
    ],
)
def test_a_malformed_row_is_damage(data: Any) -> None:
    good = encode_records([chunk_event(0, TextDelta(0, "x"))])
    row = json.dumps({"type": "text-chunks", "seq0": 1, "time0": 1, "data": data}).encode()
    decoded = decode_records(good + row + b"\n", TYPES)
    assert len(decoded.events) == 1
    assert decoded.end == len(good)
    assert decoded.damage is not None
    assert decoded.damage.line == 2


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"text-chunks","seq0":1,"time0":1,"seq":1,"data":{}}',
        b'{"type":"a","seq":1,"time":1,"time0":1,"data":{}}',
        b'{"type":"a","seq":1,"data":{}}',
        b'{"type":"a","time":1,"data":{}}',
        b'{"type":"a","seq":2,"time":1,"data":{}}',
        b'{"type":"weird-chunks","seq0":1,"time0":1,"data":{}}',
        b"not json",
    ],
)
def test_what_is_neither_event_nor_row_is_damage_at_its_line(line: bytes) -> None:
    good = encode_records([chunk_event(0, TextDelta(0, "x"))])
    decoded = decode_records(good + line + b"\n", TYPES, first_line=2)
    assert len(decoded.events) == 1
    assert decoded.damage is not None
    assert (decoded.damage.line, decoded.damage.offset) == (3, len(good))


def test_damage_says_what_was_expected_and_whether_a_turn_ends_after_it() -> None:
    content = (
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n'
        b'{"type":"step/end","seq":2,"time":1,"data":{"turn":1,"step":1}}\n'
    )
    end = b'{"type":"turn/end","seq":3,"time":1,"data":{"turn":1,"reason":{"kind":"completed"}}}\n'
    decoded = decode_records(content, TYPES)
    assert decoded.damage is not None
    assert decoded.damage.reason == "expected event 1, found event 2"
    assert not decoded.turn_ends_later
    assert decode_records(content + end, TYPES).turn_ends_later


def test_an_unterminated_line_is_left_alone() -> None:
    good = encode_records([chunk_event(0, TextDelta(0, "x"))])
    decoded = decode_records(good + good.rstrip(b"\n"), TYPES)
    assert (len(decoded.events), decoded.end, decoded.damage) == (1, len(good), None)


@pytest.mark.parametrize("half", [b"\\ud83d", b"\xed\xa0\x80"], ids=["escape", "bytes"])
def test_half_a_character_is_read_as_a_replacement_and_reported(
    half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    line = b'{"type":"user/note","seq":0,"time":1,"data":{"t":"%b"},"ignorable":true}\n' % half
    decoded = decode_records(line, TYPES)
    assert decoded.damage is None
    assert decoded.events[0].data["t"] == "\ufffd"
    assert "line 1" in caplog.text


def test_bytes_that_are_no_text_are_damage() -> None:
    line = b'{"type":"user/note","seq":0,"time":1,"data":{"t":"caf\xe9"}}\n'
    decoded = decode_records(line, TYPES)
    assert decoded.events == []
    assert decoded.damage is not None
    assert "utf-8" in decoded.damage.reason
