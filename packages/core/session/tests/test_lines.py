"""The line codec and the registry of types."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from dsh_llm import create_user_message
from dsh_session import (
    KNOWN_SESSION_EVENT_TYPES,
    TURN_START,
    USER_MESSAGE,
    LogEvent,
    Replace,
    Session,
    SessionError,
    SessionEvent,
    SessionEventTypes,
    SurfaceEvent,
    decode_event_line,
    encode_event_line,
    repaired_line,
)
from hypothesis import given
from hypothesis import strategies as st

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(
    name=st.text(min_size=1),
    seq=st.integers(0, 2**53 - 1),
    time=st.integers(-(2**53), 2**53),
    data=json_values,
    op=st.none() | st.just("append") | st.builds(Replace, st.integers(0, 99), st.integers(0, 99)),
    sources=st.none() | st.lists(st.integers(0, 2**53), max_size=4).map(tuple),
    ignorable=st.booleans(),
)
def test_events_survive_their_line(
    name: str, seq: int, time: int, data: Any, op: Any, sources: Any, ignorable: bool
) -> None:
    raw = msgspec.json.encode(data)
    event = SessionEvent(name, seq, time, raw, msgspec.json.decode, op, sources, ignorable)
    line = encode_event_line(event)
    back = decode_event_line(line, SessionEventTypes(dict))
    fields = ("type", "seq", "time", "raw", "surface_op", "source_event_seqs", "ignorable")
    assert [getattr(back, f) for f in fields] == [getattr(event, f) for f in fields]
    assert encode_event_line(back) == line
    assert json.loads(line)["data"] == data


def test_a_line_is_written_as_other_readers_expect_it() -> None:
    session = Session.create("s")
    message = create_user_message("rename the flag")
    event = session.append(USER_MESSAGE, message, surface_op="append")
    assert json.loads(encode_event_line(event)) == {
        "type": "user/message",
        "seq": 0,
        "time": event.time,
        "data": {
            "id": message.id,
            "role": "user",
            "content": [{"type": "text", "text": "rename the flag"}],
            "source": {"kind": "user"},
        },
        "surfaceOp": "append",
    }


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"a","seq":0,"time":1,"data":{},"extra":1}',
        b'{"type":"a","seq":0,"time":1,"data":{},"ignorable":false}',
        b'{"type":"a","seq":0,"time":1}',
        b'{"type":"a","seq":-1,"time":1,"data":{}}',
        b'{"type":"a","seq":true,"time":1,"data":{}}',
        b'{"type":"","seq":0,"time":1,"data":{}}',
        b'{"type":"a","seq":0,"time":1.5,"data":{}}',
        b'{"type":"a","seq":0,"time":1,"data":{},"surfaceOp":{"op":"replace","start":0,"end":1,"x":1}}',
        b'{"type":"a","seq":0,"time":1,"data":{}',
        b'{"type":"a","seq":0,"time":1,"data":"\xff"}',
        b"[]",
        b"",
    ],
)
def test_what_is_no_envelope_is_refused(line: bytes) -> None:
    with pytest.raises(SessionError) as caught:
        decode_event_line(line, SessionEventTypes(dict))
    assert caught.value.code == "MALFORMED_EVENT"


def test_ignorable_true_is_an_envelope() -> None:
    line = b'{"type":"a","seq":0,"time":1,"data":{},"ignorable":true}'
    assert decode_event_line(line, SessionEventTypes(dict)).ignorable


def test_half_characters_are_repaired_and_nothing_else_is() -> None:
    line = b'{"type":"a","seq":0,"time":1,"data":{"t":"x\\ud83d","u":"\xed\xa0\x80"}}'
    repaired = repaired_line(line)
    assert repaired is not None
    data = decode_event_line(repaired, SessionEventTypes(dict)).data
    assert dict(data) == {"t": "x\ufffd", "u": "\ufffd"}
    assert repaired_line(b'{"a":1}') is None
    assert repaired_line(b'{"a":"\\ud83d"') is None
    assert repaired_line(b'{"a":"\\ud83d","b":NaN}') is None


def test_exactly_these_names_are_known_and_three_are_of_the_conversation() -> None:
    assert len(KNOWN_SESSION_EVENT_TYPES) == 48
    types = SessionEventTypes(dict)
    surface = [n for n in KNOWN_SESSION_EVENT_TYPES if isinstance(types.get(n), SurfaceEvent)]
    assert sorted(surface) == ["assistant/message", "tool/result", "user/message"]


def test_unknown_payloads_are_frozen_json() -> None:
    line = b'{"type":"vendor/x","seq":0,"time":1,"data":{"a":[1]}}'
    data = decode_event_line(line, SessionEventTypes(dict)).data
    assert data == {"a": (1,)}
    with pytest.raises(TypeError):
        data["b"] = 1


class Extra(msgspec.Struct, frozen=True):
    a: int


EXTRA = LogEvent("vendor/extra", Extra)
NOT_A_KEY = 5


def test_types_of_plugins_are_found_through_entry_points_on_first_use() -> None:
    scans: list[int] = []

    def scan() -> dict[str, str]:
        scans.append(1)
        return {"vendor/extra": f"{Extra.__module__}:EXTRA"}

    types = SessionEventTypes(scan)
    line = b'{"type":"vendor/extra","seq":0,"time":1,"data":{"a":1}}'
    event = decode_event_line(line, types)
    assert scans == []
    assert event.data == Extra(1)
    assert types.known("vendor/extra")
    assert not types.known("vendor/other")
    assert scans == [1]


def test_an_entry_point_that_leads_nowhere_is_named() -> None:
    for where in ("json:nothing", "no_such_module_here:KEY", "json:dumps"):
        types = SessionEventTypes(lambda where=where: {"vendor/x": where})
        with pytest.raises(SessionError, match="vendor/x") as caught:
            types.get("vendor/x")
        assert caught.value.code == "EVENT_TYPE_BROKEN"


def test_a_name_belongs_to_one_payload() -> None:
    types = SessionEventTypes(dict)
    types.register(EXTRA)
    types.register(EXTRA)
    with pytest.raises(SessionError) as caught:
        LogEvent("vendor/extra", msgspec.Struct)
    assert caught.value.code == "EVENT_TYPE_TAKEN"
    assert EXTRA.payload is Extra
    with pytest.raises(SessionError) as caught:
        types.register(SurfaceEvent("vendor/extra", Extra))
    assert caught.value.code == "EVENT_TYPE_TAKEN"
    assert types.get("turn/start") is TURN_START


def test_installed_definitions_are_known_without_registering() -> None:
    assert SessionEventTypes().get("turn/start") is TURN_START
    assert SessionEventTypes().get("no/such-type") is None
