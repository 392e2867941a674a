"""The provider's chunks to ours: block order, usage, how the stream ended."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from dsh_llm import (
    BlockEnd,
    BlockStart,
    Finish,
    LlmError,
    MaxTokens,
    ReasoningBlock,
    ReasoningDelta,
    Stop,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolCalls,
    Usage,
    UsageChunk,
)
from msgspec import UNSET

from ._calls import CallTable
from ._failures import stream_error
from ._wire import WireCall, WireChunk, WireDelta, WireUsage, clean

if TYPE_CHECKING:
    from dsh_llm import FinishReason, StreamChunk


class Translator:
    """Folds one stream. `push` every chunk, then `finish` once at the end mark."""

    __slots__ = (
        "_calls",
        "_finish",
        "_next",
        "_reasoning",
        "_text",
        "_thought",
        "_usage",
        "_wrote",
    )

    def __init__(self, taken: Callable[[], Collection[str]]) -> None:
        """`taken`: the call ids of the conversation so far."""
        self._calls = CallTable(taken)
        self._next = 0
        self._text = -1
        self._reasoning = -1
        self._wrote: list[str] = []
        self._thought: list[str] = []
        self._usage: WireUsage | None = None
        self._finish: str | None = None

    def push(self, chunk: WireChunk | None, out: list[StreamChunk]) -> None:
        """Append to `out` what `chunk` says. Raises `LlmError` for an error inside the stream."""
        if chunk is None:
            return
        if chunk.error:
            raise stream_error(chunk.error)
        if chunk.usage is not None:
            self._usage = chunk.usage
        for choice in chunk.choices or ():
            if choice is None or choice.index:
                continue
            if choice.delta is not None:
                self._push_delta(choice.delta, out)
            if choice.finish_reason:
                self._finish = choice.finish_reason

    def finish(self, out: list[StreamChunk]) -> None:
        """Append block ends, usage and finish.

        Raises `LlmError` for an ending that is a failure, after appending the usage.
        """
        failure = self._failure()
        if failure is None:
            out.extend(self._block_ends())
        if self._usage is not None:
            out.append(UsageChunk(usage_of(self._usage)))
        if failure is not None:
            raise failure
        out.append(Finish(self._reason()))

    def _push_delta(self, delta: WireDelta, out: list[StreamChunk]) -> None:
        if text := delta.reasoning_content:
            if "\0" in text:
                text = clean(text)
            if self._reasoning < 0:
                self._reasoning = self._start("reasoning", out)
            self._thought.append(text)
            out.append(ReasoningDelta(self._reasoning, text))
        if text := delta.content:
            if "\0" in text:
                text = clean(text)
            if self._text < 0:
                self._text = self._start("text", out)
            self._wrote.append(text)
            out.append(TextDelta(self._text, text))
        if delta.tool_calls:
            for fragment in delta.tool_calls:
                if fragment is not None:
                    self._push_call(fragment, out)

    def _push_call(self, fragment: WireCall, out: list[StreamChunk]) -> None:
        call = self._calls.match(fragment)
        if call is None:
            call = self._calls.open(fragment, self._start("tool-call", out))
        function = fragment.function
        name = clean(function.name or "") if function and not call.name else ""
        arguments = clean(function.arguments or "") if function else ""
        call.name = call.name or name
        if arguments:
            call.parts.append(arguments)
        out.append(ToolCallDelta(call.block_index, call.id, name or UNSET, arguments))

    def _start(self, block_type: str, out: list[StreamChunk]) -> int:
        index = self._next
        self._next += 1
        out.append(BlockStart(index, block_type))
        return index

    def _block_ends(self) -> list[BlockEnd]:
        ends = [
            BlockEnd(call.block_index, ToolCallBlock(call.id, call.name, call.arguments))
            for call in self._calls.calls
        ]
        if self._text >= 0:
            ends.append(BlockEnd(self._text, TextBlock("".join(self._wrote))))
        if self._reasoning >= 0:
            ends.append(BlockEnd(self._reasoning, ReasoningBlock("".join(self._thought))))
        return sorted(ends, key=lambda end: end.index)

    def _failure(self) -> LlmError | None:
        finish = self._finish
        if finish == "insufficient_system_resource":
            # The provider broke off for want of capacity: the same as a 503, only later.
            return LlmError("the provider ran out of capacity for this answer", code="SERVER")
        if finish not in (None, "stop", "tool_calls", "function_call", "length"):
            return LlmError(
                f"the provider ended the answer with {clean(finish)!r}", code=clean(finish.upper())
            )
        if self._next == 0 and finish != "length":
            return LlmError("the provider sent an empty answer", code="EMPTY_RESPONSE")
        return None

    def _reason(self) -> FinishReason:
        if self._finish == "length":
            return MaxTokens()
        # Servers say `stop` although they called tools; what counts is what the answer holds.
        return ToolCalls() if self._calls.calls else Stop()


def usage_of(wire: WireUsage) -> Usage:
    """Our four separate counts of the provider's, unknown parts absent."""
    details = wire.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    if cached is None:
        cached = wire.prompt_cache_hit_tokens
    prompt = wire.prompt_tokens
    spent = wire.completion_tokens_details
    thought = spent.reasoning_tokens if spent is not None else None
    return Usage(
        input_tokens=UNSET if prompt is None else max(0, prompt - (cached or 0)),
        output_tokens=UNSET if wire.completion_tokens is None else wire.completion_tokens,
        cache_read_tokens=UNSET if cached is None else cached,
        reasoning_tokens=UNSET if thought is None else thought,
    )
