"""Text that the log and strict servers refuse, made readable.

Output of programs holds NUL bytes, and file names hold lone surrogates. Both become the
replacement character once, here, so that nothing further out has to think of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from dsh_llm import ContentBlock, Message, TextBlock
from dsh_lossless_json import MAX_DEPTH, Opaque, convert

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def repaired_text(text: str) -> str:
    """`text` with every NUL and lone surrogate replaced."""
    return _UNSAFE.sub(_REPLACEMENT, text) if _UNSAFE.search(text) else text


def repaired_json(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON
    """A copy of plain JSON data with every text repaired. Deep parts are left to `freeze`."""
    if type(value) is str:
        return repaired_text(value)
    if depth > 2 * MAX_DEPTH:
        return value
    if isinstance(value, dict):
        fields = cast("Mapping[Any, Any]", value)
        return {
            repaired_json(key, depth + 1): repaired_json(one, depth + 1)
            for key, one in fields.items()
        }
    if isinstance(value, (list, tuple)):
        return [repaired_json(one, depth + 1) for one in cast("list[Any]", value)]
    return value


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
        return TextBlock(_UNSAFE.sub(_REPLACEMENT, text)) if _UNSAFE.search(text) else block
    if not isinstance(block, ContentBlock):  # pyright: ignore[reportUnnecessaryIsInstance] - a listener's word
        raise TypeError(f"expected a content block, got {type(block).__name__}")
    if not isinstance(block, msgspec.Struct):
        return block  # an unknown kind was frozen, and so checked, when it was made
    plain = msgspec.to_builtins(block, enc_hook=_opaque_json)
    repaired = repaired_json(plain)
    return block if repaired == plain else convert(repaired, ContentBlock)


def _opaque_json(value: object) -> object:
    if isinstance(value, Opaque):
        return value.json
    raise TypeError(f"{type(value).__name__} has no JSON form")
