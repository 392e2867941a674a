"""The machine-readable lines of a run, made from the events of its session log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from dsh_llm import ReasoningBlock, TextBlock, ToolResultBlock, Usage, text_of
from dsh_llm_retry import LLM_RETRY
from dsh_lossless_json import encode
from dsh_session import (
    ASSISTANT_MESSAGE,
    STEP_END,
    STEP_START,
    TOOL_CALL,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    SessionEvent,
    TurnEndReason,
)
from msgspec import UNSET, UnsetType


class _Line(msgspec.Struct, frozen=True, rename="camel", tag_field="type", kw_only=True):
    """What all lines share."""


class SessionLine(_Line, frozen=True, tag="session"):
    """The session and its prompt are on disk."""

    session_id: str
    cwd: str


class UsageLine(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Tokens of a step; parts that the provider did not report are absent."""

    input_tokens: int | UnsetType = UNSET
    cache_read_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    total_tokens: int | UnsetType = UNSET


class StatusLine(_Line, frozen=True, tag="status"):
    """An edge of a turn or step, or a retry."""

    phase: Literal["turn_start", "step_start", "retry", "step_end", "turn_end"]
    turn: int
    step: int | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    delay_ms: float | UnsetType = UNSET
    code: str | UnsetType = UNSET
    usage: UsageLine | UnsetType = UNSET
    reason: TurnEndReason | UnsetType = UNSET


class ReasoningLine(_Line, frozen=True, tag="reasoning"):
    """What the model thought, once its message is committed."""

    text: str


class TextLine(_Line, frozen=True, tag="text"):
    """What the model said, once its message is committed."""

    text: str


class ToolCallLine(_Line, frozen=True, tag="tool_call"):
    """A call; `input` is the raw text if it is no JSON object."""

    call_id: str
    tool: str
    input: msgspec.Raw | str


class ToolResultLine(_Line, frozen=True, tag="tool_result"):
    """A call's result as the model sees it."""

    call_id: str
    status: Literal["completed", "error"]
    result: str


class ErrorLine(_Line, frozen=True, tag="error"):
    """The run failed."""

    code: str
    message: str


class FinalLine(_Line, frozen=True, tag="final"):
    """Always the last line; `text` is empty on failure."""

    text: str


Line: TypeAlias = (
    SessionLine
    | StatusLine
    | ReasoningLine
    | TextLine
    | ToolCallLine
    | ToolResultLine
    | ErrorLine
    | FinalLine
)


def encode_line(line: Line) -> bytes:
    """The line with its newline."""
    return encode(line) + b"\n"


class LineWriter:
    """Turns session events into lines; remembers a step's usage until the step ends."""

    def __init__(self) -> None:
        self._usage: UsageLine | UnsetType = UNSET

    def lines(self, event: SessionEvent[Any]) -> Iterator[Line]:
        """The lines that `event` stands for, often none."""
        if TURN_START.of(event):
            yield StatusLine(phase="turn_start", turn=event.data.turn)
        elif STEP_START.of(event):
            self._usage = UNSET
            yield StatusLine(phase="step_start", turn=event.data.turn, step=event.data.step)
        elif ASSISTANT_MESSAGE.of(event):
            message = event.data.message
            self._usage = usage_line(event.data.usage)
            reasoning = "".join(b.text for b in message.content if isinstance(b, ReasoningBlock))
            if reasoning:
                yield ReasoningLine(text=reasoning)
            if text := text_of(message.content):
                yield TextLine(text=text)
        elif TOOL_CALL.of(event):
            call = event.data
            yield ToolCallLine(
                call_id=call.call_id, tool=call.name, input=_call_input(call.arguments)
            )
        elif TOOL_RESULT.of(event):
            for block in event.data.message.content:
                if isinstance(block, ToolResultBlock):
                    yield _result_line(block)
        elif LLM_RETRY.of(event):
            retry = event.data
            yield StatusLine(
                phase="retry",
                turn=retry.turn,
                step=retry.step,
                attempt=retry.retry,
                delay_ms=retry.delay_ms,
                code=retry.failure.code,
            )
        elif STEP_END.of(event):
            yield StatusLine(
                phase="step_end", turn=event.data.turn, step=event.data.step, usage=self._usage
            )
        elif TURN_END.of(event):
            yield StatusLine(phase="turn_end", turn=event.data.turn, reason=event.data.reason)


def usage_line(usage: Usage | UnsetType) -> UsageLine | UnsetType:
    """`usage` with its total: input, cache read and output, as far as they are known."""
    if usage is UNSET:
        return UNSET
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    known = [part for part in parts if part is not UNSET]
    return UsageLine(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        total_tokens=sum(known) if known else UNSET,
    )


def _call_input(arguments: str) -> msgspec.Raw | str:
    try:
        value = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        # Encoded again, because the model's own text may hold line breaks.
        return msgspec.Raw(msgspec.json.encode(value))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments


def _result_line(block: ToolResultBlock) -> ToolResultLine:
    texts = [part.text for part in block.content if isinstance(part, TextBlock)]
    return ToolResultLine(
        call_id=block.tool_call_id,
        status="error" if block.is_error is True else "completed",
        result="\n".join(texts),
    )
