"""The conversation as a fold over the log."""

from __future__ import annotations

import msgspec
import pytest
from dsh_llm import (
    Message,
    ModelSource,
    TextBlock,
    ToolResultBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from dsh_session import (
    ASSISTANT_MESSAGE,
    TOOL_RESULT,
    TURN_START,
    USER_MESSAGE,
    AssistantMessage,
    Replace,
    Session,
    SessionError,
    SurfaceManager,
    ToolResult,
    TurnStart,
    fold_surface,
)
from hypothesis import given
from hypothesis import strategies as st


def say(session: Session, text: str, op: object = "append", sources: object = None) -> Message:
    message = create_user_message(text)
    session.append(USER_MESSAGE, message, surface_op=op, source_event_seqs=sources)
    return message


def three() -> Session:
    session = Session.create("s")
    for text in "abc":
        say(session, text)
    return session


def result(call_id: str, text: str, **changes: object) -> ToolResult:
    message = create_tool_result_message(call_id, [TextBlock(text)], is_error=False)
    return msgspec.structs.replace(ToolResult(1, 1, message, meta={"k": 1}), **changes)


def test_replacing_two_of_three_puts_the_new_one_first() -> None:
    session = three()
    say(session, "ab", Replace(0, 1), [0, 1])
    assert session.surface.nodes == (3, 2)
    assert session.surface.replace_generation == 1
    assert session.seq == 4


def test_start_and_end_are_compared_in_the_order_of_the_conversation() -> None:
    session = three()
    say(session, "ab", Replace(0, 1), [0, 1])
    say(session, "abc", Replace(3, 2), [3, 2])
    assert session.surface.nodes == (4,)
    with pytest.raises(SessionError, match="not in the conversation"):
        say(session, "x", Replace(0, 4), [0, 4])


def test_start_after_end_is_refused() -> None:
    session = three()
    with pytest.raises(SessionError, match="stands before it"):
        say(session, "x", Replace(2, 0), [0, 1, 2])


def test_a_replacement_that_does_not_cite_what_it_hides_is_refused_naming_it() -> None:
    session = three()
    with pytest.raises(SessionError, match="event 1") as caught:
        say(session, "x", Replace(0, 1), [0])
    assert caught.value.code == "INVALID_SURFACE"
    assert session.surface.nodes == (0, 1, 2)


@pytest.mark.parametrize("sources", [[0, 0], [], [3], [4], [-1], ["0"], [True]])
def test_sources_are_distinct_earlier_events(sources: list[object]) -> None:
    session = three()
    with pytest.raises(SessionError) as caught:
        say(session, "x", "append", sources)
    assert caught.value.code == "INVALID_SURFACE"
    assert session.seq == 3


def test_an_assistant_message_may_know_that_its_stream_was_empty() -> None:
    session = Session.create("s")
    message = create_assistant_message([], source=ModelSource("p", "m"))
    session.append(
        ASSISTANT_MESSAGE,
        AssistantMessage(1, 1, message),
        surface_op="append",
        source_event_seqs=[],
    )
    assert session.events[0].source_event_seqs == ()
    assert session.surface.nodes == (0,)
    assert session.derive_messages() == ()


def test_a_pruned_tool_result_may_change_its_content_only() -> None:
    session = Session.create("s")
    original = result("c1", "a very long text")
    session.append(TOOL_RESULT, original, surface_op="append")
    block = original.message.content[0]
    assert isinstance(block, ToolResultBlock)
    pruned = msgspec.structs.replace(
        original,
        message=msgspec.structs.replace(
            original.message,
            content=(msgspec.structs.replace(block, content=(TextBlock("short"),)),),
        ),
    )
    other_meta = msgspec.structs.replace(pruned, meta={"k": 2})
    with pytest.raises(SessionError, match="may change nothing"):
        session.append(TOOL_RESULT, other_meta, surface_op=Replace(0, 0), source_event_seqs=[0])
    session.append(TOOL_RESULT, pruned, surface_op=Replace(0, 0), source_event_seqs=[0])
    assert session.derive_messages() == (pruned.message,)


def test_a_tool_result_replaces_nothing_but_one_tool_result() -> None:
    session = three()
    with pytest.raises(SessionError, match="exactly one"):
        session.append(
            TOOL_RESULT, result("c", "x"), surface_op=Replace(0, 0), source_event_seqs=[0]
        )


def test_messages_are_derived_once_and_again_after_a_replacement() -> None:
    session = three()
    first = session.derive_messages()
    assert session.derive_messages() is first
    session.append(TURN_START, TurnStart(1))
    assert session.derive_messages() is first
    late = say(session, "d")
    second = session.derive_messages()
    assert second[:3] == first
    assert second[3] == late
    summary = say(session, "sum", Replace(0, 2), [0, 1, 2])
    assert session.derive_messages() == (summary, late)


def test_a_window_cannot_replace_what_lies_before_it() -> None:
    session = three()
    event = session.append(
        USER_MESSAGE,
        create_user_message("x"),
        surface_op=Replace(0, 2),
        source_event_seqs=[0, 1, 2],
    )
    window = SurfaceManager([], base_seq=3)
    with pytest.raises(SessionError, match="not in the conversation"):
        window.check(event)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=25))
def test_replaying_the_log_gives_the_same_conversation(steps: list[tuple[int, int, bool]]) -> None:
    session = Session.create("s")
    expected: list[int] = []
    for number, (one, other, replace) in enumerate(steps):
        if replace and expected:
            start, end = sorted((one % len(expected), other % len(expected)))
            hidden = expected[start : end + 1]
            say(session, str(number), Replace(hidden[0], hidden[-1]), hidden)
            expected[start : end + 1] = [session.seq - 1]
        else:
            say(session, str(number))
            expected.append(session.seq - 1)
        if one % 3 == 0:
            session.derive_messages()
    assert session.surface.nodes == tuple(expected)
    assert fold_surface(session.events).nodes == tuple(expected)
    again = Session.create("s", seed=session.events)
    assert again.derive_messages() == session.derive_messages()
    assert [m.content[0].text for m in session.derive_messages()] == [str(i) for i in expected]
    hidden = {seq for one in fold_surface(session.events).replacements for seq in one.shadowed_seqs}
    assert hidden | set(expected) == set(range(session.seq))
