"""Chunks back to blocks."""

from __future__ import annotations

from typing import cast

import msgspec
from dsh_lossless_json import FrozenJson, freeze
from msgspec import UNSET, UnsetType

from ._blocks import ContentBlock, ReasoningBlock, TextBlock, ToolCallBlock
from ._chunks import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    MaxTokens,
    ReasoningDelta,
    ReplayState,
    Stop,
    StreamChunk,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from ._failures import LlmError
from ._messages import Message, ModelSource, create_assistant_message

_TOOL_CALL = "tool-call"


class _Open:
    """A block on its way. `ended` is set by its end, which is authoritative."""

    __slots__ = ("block_type", "call_id", "ended", "name", "parts")

    def __init__(self, block_type: str) -> None:
        self.block_type = block_type
        self.parts: list[str] = []
        self.call_id = ""
        self.name = ""
        self.ended: ContentBlock | None = None

    def block(self, index: int) -> ContentBlock:
        if self.ended is not None:
            return self.ended
        text = "".join(self.parts)
        if self.block_type == "text":
            return TextBlock(text)
        if self.block_type == "reasoning":
            return ReasoningBlock(text)
        if self.block_type == _TOOL_CALL:
            return ToolCallBlock(self.call_id or f"call-{index}", self.name, text)
        raise LlmError(
            f"the stream left a block of the unknown type {self.block_type!r} open",
            code="MALFORMED_RESPONSE",
        )


class BlockAssembler:
    """Folds the chunks of one stream. Push them in order, read at any time.

    Takes streams of deltas alone: a delta opens its block, and of a block that never ends what
    came counts. Reading is idempotent.
    """

    usage: Usage | None
    """The last usage that the stream reported."""
    finish: FinishReason
    """Why the stream ended; `Stop` until it says."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._replay: ReplayState | UnsetType = UNSET
        self.usage = None
        self.finish = Stop()

    def push(self, chunk: StreamChunk) -> None:
        """Take one chunk. What comes for a block after its end is ignored."""
        if isinstance(chunk, TextDelta):
            self._push_text(chunk, "text")
        elif isinstance(chunk, ReasoningDelta):
            self._push_text(chunk, "reasoning")
        elif isinstance(chunk, ToolCallDelta):
            self._push_call(chunk)
        elif isinstance(chunk, BlockStart):
            if chunk.index not in self._open:
                self._opened(chunk.index, chunk.block_type)
        elif isinstance(chunk, BlockEnd):
            self._push_end(chunk)
        elif isinstance(chunk, UsageChunk):
            self.usage = chunk.usage
        elif isinstance(chunk, Finish):  # pyright: ignore[reportUnnecessaryIsInstance] - see below
            self.finish = chunk.reason
            self._replay = chunk.replay_state
        else:
            # The union is closed: what an adapter of another version invents must not vanish.
            raise TypeError(f"{type(chunk).__name__} is no stream chunk")

    def blocks(self) -> tuple[ContentBlock, ...]:
        """What the stream amounts to, in the order of first sight.

        A stream cut by the output limit has no tool call: any of them may be incomplete. Raises
        `LlmError` with `MALFORMED_RESPONSE` for an open block of an unknown type.
        """
        blocks = self._all_blocks()
        if type(self.finish) is not MaxTokens:
            return blocks
        return tuple(block for block in blocks if type(block) is not ToolCallBlock)

    def interrupted_blocks(self) -> tuple[ContentBlock, ...]:
        """What is worth keeping of a stream that was stopped: text and reasoning, not blank."""
        kept: list[ContentBlock] = []
        for index, opened in self._open.items():
            if opened.ended is None and opened.block_type not in ("text", "reasoning"):
                continue
            block = opened.block(index)
            if isinstance(block, TextBlock | ReasoningBlock) and block.text.strip():
                kept.append(block)
        return tuple(kept)

    @property
    def replay_state(self) -> ReplayState | None:
        """The adapter's data for sending the message back, its entries matching `blocks()`.

        None if there is none, or if its entries do not match the blocks that were seen.
        """
        state = self._replay
        if state is UNSET:
            return None
        entries = state.blocks
        if entries is UNSET:
            return state
        blocks = self._all_blocks()
        if len(entries) != len(blocks):
            return None
        if type(self.finish) is MaxTokens:
            pairs = zip(blocks, entries, strict=True)
            entries = tuple(entry for block, entry in pairs if type(block) is not ToolCallBlock)
        return ReplayState(state.response, entries)

    def message(self, source: ModelSource) -> Message:
        """The assistant message of `blocks()`, its source completed by the replay state."""
        state = self.replay_state
        if state is not None:
            data = cast("FrozenJson", freeze(msgspec.to_builtins(state)))
            source = ModelSource(source.provider, source.model, data)
        return create_assistant_message(self.blocks(), source=source)

    def _all_blocks(self) -> tuple[ContentBlock, ...]:
        return tuple(opened.block(index) for index, opened in self._open.items())

    def _opened(self, index: int, block_type: str) -> _Open:
        opened = self._open[index] = _Open(block_type)
        return opened

    def _push_text(self, delta: TextDelta | ReasoningDelta, block_type: str) -> None:
        opened = self._open.get(delta.index)
        if opened is None:
            opened = self._opened(delta.index, block_type)
        opened.parts.append(delta.text)

    def _push_call(self, delta: ToolCallDelta) -> None:
        opened = self._open.get(delta.index) or self._opened(delta.index, _TOOL_CALL)
        opened.call_id = opened.call_id or delta.id
        if delta.name is not UNSET:
            opened.name = opened.name or delta.name
        opened.parts.append(delta.arguments_delta)

    def _push_end(self, end: BlockEnd) -> None:
        opened = self._open.get(end.index) or self._opened(end.index, "")
        if opened.ended is None:
            opened.ended = end.block
