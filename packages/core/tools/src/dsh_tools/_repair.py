"""Content and messages whose text the log and strict servers take.

It is repaired once, here, so that nothing further out has to think of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from dsh_llm import ContentBlock, Message, TextBlock
from dsh_lossless_json import Opaque, convert, repaired


def repaired_blocks(blocks: Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    """`blocks` with their text repaired. Raises `TypeError` for what is no content block."""
    return tuple(map(_repaired_block, blocks))


def repaired_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """`messages` with the text of their content repaired. Raises `TypeError` for other things."""
    out: list[Message] = []
    for message in messages:
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] - a listener's word
            raise TypeError(f"expected a message, got {type(message).__name__}")
        content = repaired_blocks(message.content)
        same = all(new is old for new, old in zip(content, message.content, strict=True))
        out.append(message if same else msgspec.structs.replace(message, content=content))
    return tuple(out)


def _repaired_block(block: ContentBlock) -> ContentBlock:
    if type(block) is TextBlock:
        text = block.text
        if type(text) is not str:
            raise TypeError(f"expected text in a block, got {type(text).__name__}")
        mended = repaired(text)
        return block if mended is text else TextBlock(mended)
    if not isinstance(block, ContentBlock):  # pyright: ignore[reportUnnecessaryIsInstance] - a listener's word
        raise TypeError(f"expected a content block, got {type(block).__name__}")
    if not isinstance(block, msgspec.Struct):
        return block  # an unknown kind was frozen, and so checked, when it was made
    plain = msgspec.to_builtins(block, enc_hook=_opaque_json)
    mended = repaired(plain)
    return block if mended == plain else convert(mended, ContentBlock)


def _opaque_json(value: object) -> object:
    if isinstance(value, Opaque):
        return value.json
    raise TypeError(f"{type(value).__name__} has no JSON form")
