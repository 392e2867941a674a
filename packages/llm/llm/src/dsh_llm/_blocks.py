"""Content blocks: what a message is made of. An open union on `type`."""

from __future__ import annotations

import msgspec
from dsh_lossless_json import OpenUnion
from msgspec import UNSET, UnsetType


class ContentBlock(OpenUnion, tag_field="type"):
    """Base of every content block. Consumers pass by kinds they do not know."""

    __slots__ = ()


@ContentBlock.variant
class TextBlock(
    msgspec.Struct, ContentBlock, frozen=True, rename="camel", tag_field="type", tag="text"
):
    """Text for or from the model."""

    text: str


@ContentBlock.variant
class ReasoningBlock(
    msgspec.Struct, ContentBlock, frozen=True, rename="camel", tag_field="type", tag="reasoning"
):
    """What the model thought before it answered."""

    text: str


@ContentBlock.variant
class ToolCallBlock(
    msgspec.Struct, ContentBlock, frozen=True, rename="camel", tag_field="type", tag="tool-call"
):
    """A call that the model asked for. `arguments` is its raw text, possibly malformed JSON."""

    id: str
    name: str
    arguments: str


@ContentBlock.variant
class ToolResultBlock(
    msgspec.Struct, ContentBlock, frozen=True, rename="camel", tag_field="type", tag="tool-result"
):
    """What a call gave back to the model."""

    tool_call_id: str
    content: tuple[ContentBlock, ...]
    is_error: bool | UnsetType = UNSET


def text_of(content: tuple[ContentBlock, ...], *, separator: str = "") -> str:
    """The text blocks of `content`, joined; everything else is left out."""
    return separator.join(block.text for block in content if isinstance(block, TextBlock))
