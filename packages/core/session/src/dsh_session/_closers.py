"""Closes the turn that a dead process left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from dsh_llm import Message, MessageId, TextBlock, ToolCallBlock, ToolResultBlock, ToolSource

from ._envelope import SessionEvent, SessionEventType, SurfaceOp
from ._view import AnyEvent
from ._vocabulary import (
    ASSISTANT_MESSAGE,
    STEP_END,
    STEP_START,
    TOOL_CALL,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    ErrorName,
    StepMark,
    ToolResult,
    TurnEnd,
    TurnInterrupted,
)

NOT_STARTED: Final = ErrorName("ToolNotStartedError", "TOOL_NOT_STARTED")
OUTCOME_UNKNOWN: Final = ErrorName("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")

_NOT_STARTED_TEXT: Final = (
    "Interrupted before this call started: it did not run. Call it again if it is still needed."
)
_OUTCOME_UNKNOWN_TEXT: Final = (
    "Interrupted while this call was running: its outcome is unknown. Repeat it only if it just "
    "reads or is safe to run twice; otherwise check what it did first, or ask the user."
)


class _Call(msgspec.Struct):
    turn: int
    step: int
    started_seq: int | None = None


class _OpenTurn(msgspec.Struct):
    turn: int
    step: int | None = None
    pending: dict[str, _Call] = msgspec.field(default_factory=dict)

    def see(self, event: AnyEvent) -> None:
        """Take in the next event of the turn."""
        if STEP_START.of(event):
            self.step = event.data.step
        elif STEP_END.of(event):
            self.step = None
            self.pending.clear()
        elif ASSISTANT_MESSAGE.of(event):
            data = event.data
            for block in data.message.content:
                if isinstance(block, ToolCallBlock):
                    self.pending[block.id] = _Call(data.turn, data.step)
        elif TOOL_CALL.of(event):
            call = self.pending.get(event.data.call_id)
            if call is not None:
                call.started_seq = event.seq
        elif TOOL_RESULT.of(event) and isinstance(event.data.message.source, ToolSource):
            self.pending.pop(event.data.message.source.call_id, None)


def interrupted_turn_closers(events: Sequence[AnyEvent]) -> tuple[AnyEvent, ...]:
    """The events that close the turn `events` leave open, to be added at their end.

    Each unanswered call gets an error result, then the open step and the turn end. All carry the
    time of the last event. Nothing for a log without an open turn.
    """
    start = _open_turn_start(events)
    if start is None:
        return ()
    state = _OpenTurn(events[start].data.turn)
    for position in range(start + 1, len(events)):
        state.see(events[position])
    closers = _Closers(events[-1])
    for call_id, call in state.pending.items():
        closers.answer(call_id, call)
    if state.step is not None:
        closers.add(STEP_END, StepMark(state.turn, state.step))
    closers.add(TURN_END, TurnEnd(state.turn, TurnInterrupted()))
    return tuple(closers.events)


class _Closers:
    def __init__(self, last: AnyEvent) -> None:
        self._next = last.seq + 1
        self._time = last.time
        self.events: list[AnyEvent] = []

    def add(
        self,
        key: SessionEventType[Any],
        data: object,
        *,
        surface_op: SurfaceOp | None = None,
        sources: tuple[int, ...] | None = None,
    ) -> None:
        """The next closing event."""
        seq = self._next + len(self.events)
        raw = key.encode(data)
        self.events.append(
            SessionEvent(key.name, seq, self._time, raw, key.decode, surface_op, sources)
        )

    def answer(self, call_id: str, call: _Call) -> None:
        """The error result of a call that got none."""
        started = call.started_seq
        text, error, sources = _NOT_STARTED_TEXT, NOT_STARTED, None
        if started is not None:
            text, error, sources = _OUTCOME_UNKNOWN_TEXT, OUTCOME_UNKNOWN, (started,)
        seq = self._next + len(self.events)
        message = Message(
            id=MessageId(f"interrupted-tool-result-{call_id}-{seq}"),
            role="user",
            content=(ToolResultBlock(call_id, (TextBlock(text),), is_error=True),),
            source=ToolSource(call_id),
        )
        data = ToolResult(call.turn, call.step, message, error)
        self.add(TOOL_RESULT, data, surface_op="append", sources=sources)


def _open_turn_start(events: Sequence[AnyEvent]) -> int | None:
    for position in range(len(events) - 1, -1, -1):
        event = events[position]
        if TURN_START.of(event):
            return position
        if TURN_END.of(event):
            return None
    return None
