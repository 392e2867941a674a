"""Closing what a dead process left open."""

from __future__ import annotations

from typing import Any

import pytest
from dsh_llm import (
    ModelSource,
    TextBlock,
    ToolCallBlock,
    create_assistant_message,
    create_tool_result_message,
)
from dsh_session import (
    ASSISTANT_MESSAGE,
    STEP_END,
    STEP_START,
    TOOL_CALL,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    AssistantMessage,
    Session,
    StepMark,
    ToolCall,
    ToolResult,
    TurnCompleted,
    TurnEnd,
    TurnStart,
    interrupted_turn_closers,
)


def open_step(*calls: str, turn: int = 1) -> Session:
    session = Session.create("s")
    session.append(TURN_START, TurnStart(turn))
    session.append(STEP_START, StepMark(turn, 1))
    blocks = [ToolCallBlock(call, "bash", "{}") for call in calls]
    message = create_assistant_message(blocks, source=ModelSource("p", "m"))
    session.append(ASSISTANT_MESSAGE, AssistantMessage(turn, 1, message), surface_op="append")
    return session


def start(session: Session, call: str) -> int:
    return session.append(TOOL_CALL, ToolCall(1, 1, call, "bash", "{}")).seq


def answer(session: Session, call: str) -> None:
    message = create_tool_result_message(call, [TextBlock("ok")], is_error=False)
    session.append(TOOL_RESULT, ToolResult(1, 1, message), surface_op="append")


def kinds(session: Session) -> list[str]:
    return [event.type for event in interrupted_turn_closers(session.events)]


def test_two_unanswered_calls_get_results_then_step_and_turn_end_at_the_last_time() -> None:
    session = open_step("c1", "c2")
    started = start(session, "c1")
    closers = interrupted_turn_closers(session.events)
    assert [e.type for e in closers] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert [e.seq for e in closers] == list(range(session.seq, session.seq + 4))
    assert {e.time for e in closers} == {session.events[-1].time}
    unknown, not_started = closers[0].data, closers[1].data
    assert (unknown.error.name, unknown.error.code) == (
        "ToolOutcomeUnknownError",
        "TOOL_OUTCOME_UNKNOWN",
    )
    assert closers[0].source_event_seqs == (started,)
    assert (not_started.error.name, not_started.error.code) == (
        "ToolNotStartedError",
        "TOOL_NOT_STARTED",
    )
    assert closers[1].source_event_seqs is None
    assert unknown.message.id == f"interrupted-tool-result-c1-{session.seq}"
    assert closers[3].raw == b'{"turn":1,"reason":{"kind":"interrupted"}}'


def test_what_the_model_reads_says_what_to_do() -> None:
    session = open_step("c1", "c2")
    start(session, "c1")
    texts = [
        event.data.message.content[0].content[0].text
        for event in interrupted_turn_closers(session.events)[:2]
    ]
    assert texts == [
        "Interrupted while this call was running: its outcome is unknown. Repeat it only if it "
        "just reads or is safe to run twice; otherwise check what it did first, or ask the user.",
        "Interrupted before this call started: it did not run. Call it again if it is still "
        "needed.",
    ]


def test_the_closed_log_is_a_valid_seed_with_nothing_left_to_close() -> None:
    session = open_step("c1", "c2")
    start(session, "c2")
    closed = (*session.events, *interrupted_turn_closers(session.events))
    again = Session.create("s", seed=closed)
    assert interrupted_turn_closers(again.events) == ()
    assert [m.role for m in again.derive_messages()] == ["assistant", "user", "user"]


def test_an_answered_call_gets_no_second_result() -> None:
    session = open_step("c1", "c2")
    start(session, "c1")
    answer(session, "c1")
    results = [e for e in interrupted_turn_closers(session.events) if e.type == "tool/result"]
    assert [e.data.message.source.call_id for e in results] == ["c2"]


def test_a_call_without_its_block_is_ignored() -> None:
    session = open_step()
    start(session, "stray")
    assert kinds(session) == ["step/end", "turn/end"]


def test_an_open_turn_without_a_step_is_just_ended() -> None:
    session = open_step("c1")
    answer(session, "c1")
    session.append(STEP_END, StepMark(1, 1))
    assert kinds(session) == ["turn/end"]


@pytest.mark.parametrize("balanced", [False, True])
def test_nothing_is_open_in_an_empty_or_balanced_log(balanced: bool) -> None:
    session: Any = Session.create("s")
    if balanced:
        session = open_step("c1")
        session.append(STEP_END, StepMark(1, 1))
        session.append(TURN_END, TurnEnd(1, TurnCompleted()))
    assert kinds(session) == []


def test_earlier_turns_are_not_looked_at() -> None:
    session = open_step("old")
    session.append(TURN_END, TurnEnd(1, TurnCompleted()))
    session.append(TURN_START, TurnStart(2))
    assert kinds(session) == ["turn/end"]
    assert interrupted_turn_closers(session.events)[0].data.turn == 2
