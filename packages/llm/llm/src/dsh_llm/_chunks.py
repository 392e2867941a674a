"""The stream protocol between adapters and the loop. A closed union on `type`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from dsh_lossless_json import FrozenJson, OpenUnion
from msgspec import UNSET, UnsetType

from ._blocks import ContentBlock
from ._failures import LlmFailure


class Usage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Tokens of one request. The first four do not overlap; reasoning is part of output.

    Absent means that the provider did not say.
    """

    input_tokens: int | UnsetType = UNSET
    """Prompt tokens that no cache served."""
    output_tokens: int | UnsetType = UNSET
    cache_read_tokens: int | UnsetType = UNSET
    cache_write_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET


class FinishReason(OpenUnion, tag_field="kind"):
    """Why a stream ended. An open union on `kind`."""

    __slots__ = ()


@FinishReason.variant
class Stop(msgspec.Struct, FinishReason, frozen=True, tag_field="kind", tag="stop"):
    """The model was done."""


@FinishReason.variant
class ToolCalls(msgspec.Struct, FinishReason, frozen=True, tag_field="kind", tag="tool-calls"):
    """The model waits for the results of its calls."""


@FinishReason.variant
class MaxTokens(msgspec.Struct, FinishReason, frozen=True, tag_field="kind", tag="max-tokens"):
    """The output limit cut the answer."""


@FinishReason.variant
class Aborted(msgspec.Struct, FinishReason, frozen=True, tag_field="kind", tag="aborted"):
    """The caller's signal stopped the stream."""

    failure: LlmFailure


@FinishReason.variant
class Failed(msgspec.Struct, FinishReason, frozen=True, tag_field="kind", tag="error"):
    """The provider or the way to it failed."""

    failure: LlmFailure


class ReplayState(msgspec.Struct, frozen=True, rename="camel"):
    """Adapter data for sending the message back: one entry for the whole, one for each block."""

    response: FrozenJson
    blocks: tuple[FrozenJson, ...] | UnsetType = UNSET


class BlockStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="block-start"):
    """A block of `block_type` opens at `index`."""

    index: int
    block_type: str


class TextDelta(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="text-delta"):
    """More text of the block at `index`."""

    index: int
    text: str


class ReasoningDelta(
    msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="reasoning-delta"
):
    """More reasoning of the block at `index`."""

    index: int
    text: str


class ToolCallDelta(
    msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="tool-call-delta"
):
    """More arguments of the call at `index`; `name` when it is known."""

    index: int
    id: str
    name: str | UnsetType = UNSET
    arguments_delta: str = ""


class BlockEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="block-end"):
    """The block at `index` is complete; `block` is authoritative over its deltas."""

    index: int
    block: ContentBlock


class UsageChunk(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="usage"):
    """What the request cost; at most one, before the finish."""

    usage: Usage


class Finish(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="finish"):
    """The end of the stream; exactly one, last."""

    reason: FinishReason
    replay_state: ReplayState | UnsetType = UNSET


StreamChunk: TypeAlias = (
    BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish
)
