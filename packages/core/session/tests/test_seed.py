"""What a session may start from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from dsh_llm import (
    AdapterDefaults,
    LlmCallConfig,
    ModelSource,
    TextBlock,
    ToolResultBlock,
    ToolSource,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from dsh_session import (
    ASSISTANT_MESSAGE,
    END_SEED,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
    AssistantMessage,
    EpochHeader,
    RequestContext,
    RequestHeader,
    Session,
    SessionError,
    SessionEvent,
    SessionHeader,
    SessionMeta,
    SessionStore,
    ToolResult,
    TurnStart,
    canonical_header,
    header_equals,
)

pytestmark = pytest.mark.anyio


def event(key: Any, data: Any, seq: int = 0, **fields: Any) -> SessionEvent[Any]:
    return SessionEvent(key.name, seq, 1000, key.encode(data), key.decode, **fields)


def refused(*events: SessionEvent[Any]) -> str:
    with pytest.raises(SessionError) as caught:
        Session.create("s", seed=events)
    assert caught.value.code == "INVALID_SEED"
    return str(caught.value)


def test_a_gap_is_refused_naming_its_index() -> None:
    text = refused(event(TURN_START, TurnStart(1)), event(TURN_START, TurnStart(1), 2))
    assert "event 1 " in text
    assert "seq is 2, expected 1" in text


def test_surface_rules_are_replayed() -> None:
    assert "surface_op" in refused(event(USER_MESSAGE, create_user_message("x")))
    assert "surface_op" in refused(event(TURN_START, TurnStart(1), surface_op="append"))
    assert "sources" in refused(event(TURN_START, TurnStart(1), source_event_seqs=(0,)))


USER = create_user_message("hi")
ANSWER = create_assistant_message([TextBlock("yo")], source=ModelSource("p", "m"))
RESULT = create_tool_result_message("c", [TextBlock("x")], is_error=False)


def with_message(message: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(message, **changes)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (USER_MESSAGE, with_message(USER, id="")),
        (USER_MESSAGE, with_message(USER, role="assistant")),
        (ASSISTANT_MESSAGE, AssistantMessage(1, 1, with_message(ANSWER, role="user"))),
        (ASSISTANT_MESSAGE, AssistantMessage(1, 1, with_message(ANSWER, source=USER.source))),
        (
            ASSISTANT_MESSAGE,
            AssistantMessage(1, 1, with_message(ANSWER, source=ModelSource("", "m"))),
        ),
        (
            ASSISTANT_MESSAGE,
            AssistantMessage(1, 1, with_message(ANSWER, source=ModelSource("p", ""))),
        ),
        (TOOL_RESULT, ToolResult(1, 1, with_message(RESULT, source=USER.source))),
        (TOOL_RESULT, ToolResult(1, 1, with_message(RESULT, source=ToolSource("")))),
        (TOOL_RESULT, ToolResult(1, 1, with_message(RESULT, source=ToolSource("other")))),
        (TOOL_RESULT, ToolResult(1, 1, with_message(RESULT, content=(TextBlock("x"),)))),
        (
            TOOL_RESULT,
            ToolResult(1, 1, with_message(RESULT, content=(ToolResultBlock("c", ()),) * 2)),
        ),
    ],
)
def test_misshapen_messages_are_refused(key: Any, data: Any) -> None:
    assert "event 0 " in refused(event(key, data, surface_op="append"))


def header(**config: Any) -> EpochHeader:
    return EpochHeader(config=LlmCallConfig(**{"provider": "p", "model": "m", **config}))


@pytest.mark.parametrize(
    "bad",
    [
        header(provider=""),
        header(model=""),
        header(reasoning_effort=""),
        EpochHeader(
            config=LlmCallConfig(provider="p", model="m"),
            adapter_defaults=AdapterDefaults(max_tokens=True),
        ),
        EpochHeader(
            config=LlmCallConfig(provider="p", model="m"),
            adapter_defaults=AdapterDefaults(reasoning_effort=True),
        ),
    ],
)
def test_request_headers_need_a_whole_configuration(bad: EpochHeader) -> None:
    refused(event(REQUEST_HEADER, RequestHeader(bad, "initial")))


def test_a_header_that_was_written_for_a_fallback_is_refused() -> None:
    raw = REQUEST_HEADER.encode(RequestHeader(header(), "initial")).replace(b"initial", b"fallback")
    stored = SessionEvent("request/header", 0, 1, raw, REQUEST_HEADER.decode)
    assert "fallback" in refused(stored)


def test_a_turn_end_with_an_unknown_reason_is_accepted_and_kept() -> None:
    raw = b'{"turn":1,"reason":{"kind":"volcano","lava":[1]}}'
    seed = [event(TURN_START, TurnStart(1)), SessionEvent("turn/end", 1, 5, raw, TURN_END.decode)]
    session = Session.create("s", seed=seed)
    reason = session.events[1].data.reason
    assert (reason.tag, TURN_END.encode(session.events[1].data)) == ("volcano", raw)


def test_a_seed_gets_an_end_once() -> None:
    assert Session.create("s").seq == 0
    empty = Session.create("s", seed=[])
    assert [(e.type, e.seq) for e in empty.events] == [("session/end-seed", 0)]
    assert empty.first_live_seq == 0
    again = Session.create("s", seed=empty.events)
    assert (again.seq, again.first_live_seq) == (1, 1)
    more = Session.create("s", seed=[event(TURN_START, TurnStart(1))])
    assert END_SEED.of(more.events[1])
    assert (more.first_live_seq, more.events[1].raw) == (1, b"{}")


async def test_the_end_of_a_seed_is_not_published(root: Any, store: SessionStore) -> None:
    from dsh_session import SESSION_EVENT

    heard: list[object] = []
    root.on(SESSION_EVENT, heard.append)
    assert store.create("s", seed=[]).seq == 1
    assert heard == []


@pytest.mark.parametrize(
    "meta",
    [
        SessionMeta(cwd="relative/path"),
        SessionMeta(cwd="/caf\udce9"),
        SessionMeta(parent_session="a\0b"),
        SessionMeta(created_at=-1),
        SessionMeta(created_at=2**53),
        SessionMeta(origin="x"),
        SessionMeta(seed_length=-1),
        SessionMeta(delegation_depth=True),
        SessionMeta(agent_preset=1),
    ],
)
async def test_bad_header_fields_are_refused(store: SessionStore, meta: Any) -> None:
    with pytest.raises(SessionError) as caught:
        store.create("s", meta=meta)
    assert caught.value.code == "INVALID_HEADER"
    assert store.get("s") is None


def test_a_header_is_of_this_session_and_format() -> None:
    for bad in (
        SessionHeader(id="other", created_at=1),
        SessionHeader(id="s", created_at=1, version=99),
    ):
        with pytest.raises(SessionError):
            Session.create("s", header=bad)
    good = SessionHeader(id="s", created_at=1, cwd="C:\\work")
    assert Session.create("s", header=good).header == good


def test_without_a_header_it_starts_now_in_this_format() -> None:
    made = Session.create("s").header
    assert (made.version, made.id) == (0, "s")
    assert made.created_at > 1_700_000_000_000


def test_request_header_and_context_are_the_latest_in_canonical_form() -> None:
    session = Session.create("s")
    assert (session.request_header(), session.request_context()) == (None, None)
    wordy = msgspec.structs.replace(
        header(), system="", tools=(), adapter_defaults=AdapterDefaults()
    )
    session.append(REQUEST_HEADER, RequestHeader(wordy, "initial"))
    session.append(REQUEST_CONTEXT, RequestContext("p", "m", 1000))
    session.append(REQUEST_CONTEXT, RequestContext("p", "m2"))
    assert session.request_header() == header() == canonical_header(wordy)
    assert session.request_context() == RequestContext("p", "m2")
    assert header_equals(wordy, header())
    assert not header_equals(header(), header(stop=("x",)))
    again = Session.create("s", seed=session.events)
    assert (again.request_header(), again.request_context()) == (
        session.request_header(),
        session.request_context(),
    )
