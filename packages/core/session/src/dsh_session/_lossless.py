"""Finds what an encoder would change without a word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec
from dsh_lossless_json import MAX_DEPTH, LosslessJsonError, Opaque
from msgspec import UNSET


def check_lossless(value: object, *, depth: int = 0) -> None:
    """Raises `LosslessJsonError` for a part of `value` that JSON cannot hold as it is.

    Structs, mappings with text keys, lists, tuples, text, finite numbers, booleans, None. The depth
    bound also ends cycles.
    """
    if value is None or value is UNSET or isinstance(value, (str, bool, int, Opaque)):
        return
    if isinstance(value, float):
        if value - value != 0.0:
            raise LosslessJsonError(f"holds {value!r}, which is not a JSON number")
        return
    if depth > 2 * MAX_DEPTH:
        raise LosslessJsonError("is nested too deeply, or holds itself")
    for part in _parts(value):
        check_lossless(part, depth=depth + 1)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if type(value) in (list, tuple):
        return cast("Iterable[object]", value)
    if isinstance(value, dict):
        items = cast("dict[object, object]", value)
        for key in items:
            if type(key) is not str:
                raise LosslessJsonError(f"has the key {key!r}, which is not text")
        return items.values()
    raise LosslessJsonError(f"holds a {type(value).__name__}, which is not a JSON value")
