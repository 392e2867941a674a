"""The provider's chunks to ours: block order, usage, how the stream ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

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
from dsh_lossless_json import repaired
from msgspec import UNSET

from ._calls import CallTable
from ._failures import stream_error
from ._wire import TextRepair, WireCall, WireChunk, WireDelta, WireUsage

if TYPE_CHECKING:
    from dsh_llm import FinishReason, StreamChunk


_NO_USAGE: Final = WireUsage()
_WORD: Final = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}")


class _Streamed:
    """The one text or reasoning block of an answer; index -1 until it opens."""

    __slots__ = ("index", "kind", "parts", "repair")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = -1
        self.parts: list[str] = []
        self.repair = TextRepair()

    @property
    def text(self) -> str:
        return "".join(self.parts) + self.repair.rest()


class Translator:
    """Folds one stream. `push` every chunk, then `finish` once at the end mark."""

    __slots__ = ("_answer", "_calls", "_finish", "_next", "_reasoning", "_usage")

    def __init__(self, taken: Callable[[], Collection[str]]) -> None:
        """`taken`: the call ids of the conversation so far."""
        self._calls = CallTable(taken)
        self._next = 0
        self._answer = _Streamed("text")
        self._reasoning = _Streamed("reasoning")
        self._usage: WireUsage | None = None
        self._finish: str | None = None

    def push(self, chunk: WireChunk | None, out: list[StreamChunk]) -> None:
        """Append to `out` what `chunk` says. Raises `LlmError` for an error inside the stream."""
        if chunk is None:
            return
        if chunk.error:
            raise stream_error(chunk.error)
        if chunk.usage is not None and chunk.usage != _NO_USAGE:
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
        if delta.reasoning_content:
            self._push_text(self._reasoning, delta.reasoning_content, out)
        if delta.content:
            self._push_text(self._answer, delta.content, out)
        if delta.tool_calls:
            for fragment in delta.tool_calls:
                if fragment is not None:
                    self._push_call(fragment, out)

    def _push_text(self, block: _Streamed, piece: str, out: list[StreamChunk]) -> None:
        text = block.repair.take(piece)
        if not text:
            return
        if block.index < 0:
            block.index = self._start(block.kind, out)
        block.parts.append(text)
        make = TextDelta if block is self._answer else ReasoningDelta
        out.append(make(block.index, text))

    def _push_call(self, fragment: WireCall, out: list[StreamChunk]) -> None:
        call = self._calls.match(fragment)
        if call is None:
            call = self._calls.open(fragment, self._start("tool-call", out))
        function = fragment.function
        name = repaired(function.name or "") if function and not call.name else ""
        arguments = call.repair.take(function.arguments or "") if function else ""
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
        if self._answer.index >= 0:
            ends.append(BlockEnd(self._answer.index, TextBlock(self._answer.text)))
        if self._reasoning.index >= 0:
            ends.append(BlockEnd(self._reasoning.index, ReasoningBlock(self._reasoning.text)))
        return sorted(ends, key=lambda end: end.index)

    def _failure(self) -> LlmError | None:
        finish = self._finish
        if finish == "insufficient_system_resource":
            # The provider broke off for want of capacity: the same as a 503, only later.
            return LlmError("the provider ran out of capacity for this answer", code="SERVER")
        if finish not in (None, "stop", "tool_calls", "function_call", "length"):
            return LlmError(
                f"the provider ended the answer with {repaired(finish)!r}",
                code=finish.upper() if _WORD.fullmatch(finish) else "MALFORMED_RESPONSE",
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
