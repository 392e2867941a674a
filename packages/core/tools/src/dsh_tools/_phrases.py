"""Paths and values in words that a model can act on."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

import msgspec

Path: TypeAlias = "tuple[Path, str | int] | None"
"""Where a value stands: parent and key or index. None is the root."""

_MAX_SHOWN: Final = 60
_MAX_BITS: Final = 128


def path_text(at: Path, root: str) -> str:
    """`todos[0].status`, or `root`."""
    parts: list[str] = []
    while at is not None:
        at, step = at
        parts.append(f"[{step}]" if type(step) is int else f".{step}")
    return "".join(reversed(parts)).removeprefix(".") or root


def shown(value: object) -> str:
    """A JSON value as JSON, cut to a readable length."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = type(value).__name__
    return cut(text)


def cut(text: str) -> str:
    """`text`, at most 60 characters of it."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def received(value: object) -> str:
    """The type of a value and a glimpse of it."""
    if value is None:
        return "null"
    kind = type(value)
    if kind is str:
        return f"the string {shown(cast('str', value)[: 2 * _MAX_SHOWN])}"
    if kind is bool:
        return f"a boolean ({shown(value)})"
    if kind is int:
        return f"the integer {_integer(cast('int', value))}"
    if kind is float:
        return f"the number {value!r}"
    if isinstance(value, dict):
        keys = ", ".join(map(str, cast("dict[Any, object]", value)))
        return f"an object with the keys {cut(keys)}" if keys else "an empty object"
    if isinstance(value, (list, tuple)):
        return f"an array of {len(cast('list[object]', value))}"
    return f"a value of type {kind.__name__}"


def _integer(value: int) -> str:
    # Python refuses to print integers of thousands of digits.
    return str(value) if value.bit_length() <= _MAX_BITS else f"of {value.bit_length()} bits"


def compared(left: object, right: object) -> bool:
    """JSON equality: 1 equals 1.0, true does not equal 1."""
    if type(left) is bool or type(right) is bool:
        return left is right
    return left == right
