"""API keys: what can be one, said without ever showing it."""

from __future__ import annotations

import re
from enum import Enum

from ._failures import LlmError

_USABLE = re.compile(r"[\x21-\x7e]+")


class KeyProblem(Enum):
    """Why a text is no API key."""

    EMPTY = "empty"
    ILLEGAL_CHARACTERS = "illegalCharacters"


def normalize_api_key(raw: str) -> str | KeyProblem:
    """`raw` without surrounding white space, or why it is no key.

    A key is one or more visible ASCII characters: nothing else can go into an HTTP header.
    """
    key = raw.strip()
    if not key:
        return KeyProblem.EMPTY
    return key if _USABLE.fullmatch(key) else KeyProblem.ILLEGAL_CHARACTERS


def assert_usable_api_key(raw: str, *, package: str, reference: str) -> str:
    """The normalized key that `reference` (a variable's name) holds for `package`.

    Raises `LlmError` with `INVALID_CREDENTIAL`; the text names both and never the key.
    """
    key = normalize_api_key(raw)
    if isinstance(key, str):
        return key
    what = "is empty" if key is KeyProblem.EMPTY else "has characters that no API key can have"
    raise LlmError(
        f"{package}: the API key in {reference} {what}; set it to the key alone",
        code="INVALID_CREDENTIAL",
    )
