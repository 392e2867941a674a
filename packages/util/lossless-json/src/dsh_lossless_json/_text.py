"""Text that strict JSON consumers refuse: NUL and lone surrogates.

Output of programs holds the one, file names and cut streams hold the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast, overload

_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_DEEPEST: Final = 256
"""Deeper data is no JSON that anybody here takes; it is left to who refuses it."""


def unsafe_text(text: str) -> str | None:
    """The first character that strict JSON consumers refuse (NUL, lone surrogate), or None."""
    # The pattern alone takes 6 ns a character, a hundred times as long as this on good text.
    if "\0" not in text and (text.isascii() or _is_unicode(text)):
        return None
    match = _UNSAFE.search(text)
    return match.group() if match else None


@overload
def repaired(value: str) -> str: ...
@overload
def repaired(value: object) -> Any: ...  # noqa: ANN401 - any JSON
def repaired(value: object) -> Any:
    """Text, or plain JSON data, with every NUL and lone surrogate replaced by U+FFFD.

    A text that holds neither is returned as it is; dicts, lists and tuples are copied.
    """
    return _repaired(value, 0)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _repaired(value: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON
    if type(value) is str:  # pyright: ignore[reportUnknownArgumentType]
        return value if unsafe_text(value) is None else _UNSAFE.sub(_REPLACEMENT, value)
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        fields = cast("Mapping[Any, Any]", value)
        return {_repaired(key, depth + 1): _repaired(one, depth + 1) for key, one in fields.items()}
    if isinstance(value, (list, tuple)):
        return [_repaired(one, depth + 1) for one in cast("list[Any]", value)]
    return value
