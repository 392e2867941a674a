"""What a log says about input that was consumed or dropped."""

from __future__ import annotations

from dsh_agent import INBOX_SPLICED, InboxSpliced, fold_consumed_work
from dsh_llm import create_user_message
from dsh_session import (
    STEP_START,
    TURN_END,
    TURN_START,
    Session,
    StepMark,
    TurnBlocked,
    TurnCompleted,
    TurnEnd,
    TurnStart,
)


def log(*parts):
    session = Session.create("s")
    for key, data in parts:
        session.append(key, data)
    return session.events


CLAIM = (INBOX_SPLICED, InboxSpliced(target="next-turn", start=0, removed_count=1, inserted=()))
CANCEL = (
    INBOX_SPLICED,
    InboxSpliced(target="next-turn", start=0, removed_count=1, inserted=(), outcome="canceled"),
)
START = (TURN_START, TurnStart(1))
STEP = (STEP_START, StepMark(1, 1))
COMPLETED = (TURN_END, TurnEnd(1, TurnCompleted()))
BLOCKED = (TURN_END, TurnEnd(1, TurnBlocked()))


def test_an_emptied_claim_that_completed_counts_for_nothing():
    assert fold_consumed_work(log(START, CLAIM, COMPLETED)).end is None


def test_a_claim_that_was_blocked_counts():
    end = fold_consumed_work(log(START, CLAIM, BLOCKED)).end
    assert end is not None
    assert isinstance(end.data.reason, TurnBlocked)


def test_a_turn_with_a_step_counts():
    assert fold_consumed_work(log(START, CLAIM, STEP, COMPLETED)).end is not None


def test_claims_outside_a_visible_turn_count_for_nothing():
    assert fold_consumed_work(log(CLAIM, START, BLOCKED)).end is None


def test_input_canceled_after_the_last_turn_was_dropped_unrun():
    events = log(START, CLAIM, STEP, COMPLETED, CANCEL)
    assert fold_consumed_work(events).dropped_unrun
    assert not fold_consumed_work(log(CANCEL, START, CLAIM, STEP, COMPLETED)).dropped_unrun


def test_a_replacement_drops_nothing():
    swap = InboxSpliced(
        target="next-turn",
        start=0,
        removed_count=1,
        inserted=(create_user_message("x"),),
        outcome="canceled",
    )
    assert not fold_consumed_work(log((INBOX_SPLICED, swap))).dropped_unrun
