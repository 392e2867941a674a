"""Text to JSON values, where nothing is lost on the way."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

_NUMBER: Final = re.compile(r"\s*(-?(?:0|[1-9]\d*))(\.\d+)?([eE][+-]?\d+)?\s*", re.ASCII)
_SAFE_DIGITS: Final = 15
"""Every decimal of so many digits survives the way through a float and back."""
_MAX_DIGITS: Final = 400
_EXACT_FLOAT: Final = 2.0**53


def parsed_number(text: str) -> int | float | None:
    """The number that `text` is in JSON's grammar, or None if it is none or would change."""
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if match is None:
        return None
    whole, fraction, exponent = match.groups()
    if fraction is None and exponent is None:
        return int(whole)
    number = float(text)
    if number - number != 0.0 or (number == 0.0 and whole.startswith("-")):
        return None  # infinite, or the minus zero that JSON consumers drop
    digits = len(whole) + len(fraction or "")
    if digits > _SAFE_DIGITS or number == 0.0 or exponent is not None:
        return number if _survives(text, number) else None
    return number


def _survives(text: str, number: float) -> bool:
    from decimal import Decimal  # rare: only for numbers of many digits

    return Decimal(text.strip()) == Decimal(repr(number))


def integral(value: object) -> int | None:
    """`value` as an int if it is a whole number that a float holds exactly, else None."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) <= _EXACT_FLOAT:
        return int(value)
    return None


def parsed_json(text: str) -> Any:  # noqa: ANN401 - any JSON
    """What `text` is as strict JSON, or `text` itself if it is not (or repeats a key)."""
    try:
        return strict_json(text)
    except ValueError:
        return text


def strict_json(text: str) -> Any:  # noqa: ANN401 - any JSON
    """`text` decoded. Raises `ValueError` for what is not JSON, for NaN and for repeated keys."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is repeated")
    return out
