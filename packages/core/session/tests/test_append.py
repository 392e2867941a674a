"""Appending: copies, refusals, publication."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from dsh_cordis import Context, Internal
from dsh_llm import TextBlock, TextDelta, create_tool_result_message, create_user_message
from dsh_lossless_json import FrozenJson
from dsh_session import (
    ASSISTANT_CHUNK,
    SESSION_EVENT,
    STEP_START,
    TOOL_RESULT,
    TURN_START,
    USER_MESSAGE,
    AssistantChunk,
    LogEvent,
    Session,
    SessionAppended,
    SessionError,
    SessionStore,
    StepMark,
    ToolResult,
    TurnStart,
)

pytestmark = pytest.mark.anyio


class Note(msgspec.Struct, frozen=True):
    free: FrozenJson


NOTE = LogEvent("test/note", Note)


def test_the_first_append_has_seq_0_and_its_own_copy_of_the_data() -> None:
    session = Session.create("s")
    free = {"a": [1, 2]}
    event = session.append(NOTE, Note(free))
    free["a"].append(3)
    assert (event.seq, session.seq) == (0, 1)
    assert session.events[0].data == Note({"a": (1, 2)})


def test_payloads_are_frozen_all_the_way_down() -> None:
    event = Session.create("s").append(NOTE, Note({"a": [1]}))
    with pytest.raises(TypeError):
        event.data.free["b"] = 1
    with pytest.raises(AttributeError):
        event.data.free = None
    with pytest.raises(AttributeError):
        event.seq = 5


def cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@dataclass
class Instance:
    a: int = 1


@pytest.mark.parametrize(
    "free",
    [
        {1, 2},
        {"a": {1, 2}},
        float("nan"),
        {"a": [float("inf")]},
        -0.0,
        cycle(),
        object(),
        Instance(),
        b"bytes",
        {1: "number as key"},
        "half a character \ud800",
        "\x00",
    ],
    ids=lambda free: type(free).__name__,
)
def test_data_that_json_would_change_is_refused_and_nothing_is_logged(free: Any) -> None:
    session = Session.create("s")
    with pytest.raises(SessionError, match="test/note") as caught:
        session.append(NOTE, Note(free))
    assert caught.value.code == "INVALID_PAYLOAD"
    assert session.seq == 0


@pytest.mark.parametrize("data", [{"turn": 1}, TurnStart("one"), None])
def test_a_payload_of_the_wrong_type_is_refused_by_name(data: Any) -> None:
    with pytest.raises(SessionError, match="turn/start") as caught:
        Session.create("s").append(TURN_START, data)
    assert caught.value.code == "INVALID_PAYLOAD"


def test_a_list_where_a_tuple_belongs_becomes_one() -> None:
    message = create_tool_result_message("c", [TextBlock("x")], is_error=False)
    data = ToolResult(1, 1, msgspec.structs.replace(message, content=list(message.content)))
    event = Session.create("s").append(TOOL_RESULT, data, surface_op="append")
    assert event.data.message == message


def test_free_data_of_a_result_is_checked_too() -> None:
    message = create_tool_result_message("c", [TextBlock("x")], is_error=False)
    with pytest.raises(SessionError, match="nan"):
        Session.create("s").append(
            TOOL_RESULT, ToolResult(1, 1, message, meta={"x": float("nan")}), surface_op="append"
        )


@pytest.mark.parametrize("name", ["request/header-delta", "mode/set"])
def test_retired_types_are_refused(name: str) -> None:
    with pytest.raises(SessionError) as caught:
        Session.create("s").append(LogEvent(name, Note), Note(1))
    assert caught.value.code == "RETIRED_EVENT"


def test_events_taken_earlier_keep_their_length() -> None:
    session = Session.create("s")
    session.append(TURN_START, TurnStart(1))
    before = session.events
    assert session.events is before
    session.append(STEP_START, StepMark(1, 1))
    assert (len(before), len(session.events)) == (1, 2)
    assert list(before) == [session.events[0]]


def test_the_view_slices_and_counts_from_the_end_like_a_tuple() -> None:
    session = Session.create("s")
    for turn in range(5):
        session.append(TURN_START, TurnStart(turn))
    whole = tuple(session.events)
    view = session.events
    session.append(TURN_START, TurnStart(9))
    for part in (slice(None), slice(1, 3), slice(-2, None), slice(None, None, -1), slice(9, 12)):
        assert view[part] == whole[part]
    assert view[-1] is whole[-1]
    with pytest.raises(IndexError):
        view[5]
    with pytest.raises(IndexError):
        view[-6]


async def test_everyone_hears_of_an_event_after_it_is_in_the_log(
    root: Context, store: SessionStore
) -> None:
    session = store.create("s")
    heard: list[int] = []
    root.on(SESSION_EVENT, lambda a: heard.append(len(a.session.events)))
    event = session.append(TURN_START, TurnStart(1))
    assert heard == [1]
    assert session.events[0] is event


async def test_a_listener_that_appends_gets_an_error_and_later_ones_still_run(
    root: Context, store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    session = store.create("s")
    heard: list[str] = []

    def nested(appended: SessionAppended) -> None:
        appended.session.append(STEP_START, StepMark(1, 1))

    root.on(SESSION_EVENT, nested)
    root.on(SESSION_EVENT, lambda a: heard.append(a.event.type))
    with caplog.at_level(logging.WARNING):
        session.append(TURN_START, TurnStart(1))
    assert heard == ["turn/start"]
    assert session.seq == 1
    assert "REENTRANT_APPEND" in caplog.text or "another event" in caplog.text
    session.append(STEP_START, StepMark(1, 1))
    assert session.seq == 2


async def test_a_dispatch_veto_leaves_log_and_surface_and_the_retry_reuses_the_seq(
    root: Context, store: SessionStore
) -> None:
    session = store.create("s")
    refuse = [True]

    def observer(mode: str, name: str, args: object, target: object) -> None:
        if name == "session/event" and refuse[0]:
            raise ValueError("not now")

    root.on(Internal.DISPATCH, observer)
    message = create_user_message("hi")
    with pytest.raises(ValueError, match="not now"):
        session.append(USER_MESSAGE, message, surface_op="append")
    assert (session.seq, session.surface.nodes, session.derive_messages()) == (0, (), ())
    refuse[0] = False
    assert session.append(USER_MESSAGE, message, surface_op="append").seq == 0
    assert session.derive_messages() == (message,)


async def test_a_raising_listener_does_not_fail_the_append(
    root: Context, store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    session = store.create("s")

    def broken(appended: SessionAppended) -> None:
        assert appended.event in tuple(appended.session.events)
        raise RuntimeError("broken listener")

    root.on(SESSION_EVENT, broken)
    with caplog.at_level(logging.WARNING):
        session.append(TURN_START, TurnStart(1))
    assert session.seq == 1
    assert "broken listener" in caplog.text


def test_a_detached_session_tells_nobody_and_works() -> None:
    session = Session.create("s")
    for text in ("a", "b"):
        session.append(ASSISTANT_CHUNK, AssistantChunk(1, 1, TextDelta(0, text)))
    assert [event.data.chunk.text for event in session.events] == ["a", "b"]


@pytest.mark.parametrize(
    "append",
    [
        lambda s: s.append(USER_MESSAGE, create_user_message("x")),
        lambda s: s.append(USER_MESSAGE, create_user_message("x"), surface_op="prepend"),
        lambda s: s.append(TURN_START, TurnStart(1), surface_op="append"),
        lambda s: s.append(TURN_START, TurnStart(1), source_event_seqs=[]),
    ],
    ids=["no op", "unknown op", "op on a log event", "sources on a log event"],
)
def test_surface_metadata_belongs_to_surface_events_only(append: Callable[[Any], Any]) -> None:
    session = Session.create("s")
    with pytest.raises(SessionError) as caught:
        append(session)
    assert caught.value.code == "INVALID_SURFACE"
    assert session.seq == 0


def test_an_event_can_be_marked_ignorable() -> None:
    assert Session.create("s").append(NOTE, Note(1), ignorable=True).ignorable
