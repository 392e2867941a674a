"""Hunks of a change, for showing it."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final

import msgspec

CONTEXT_LINES: Final = 3
_MAX_LINES: Final = 4_000
"""Beyond this much changed text, comparing line by line costs more than it shows."""


class Hunk(msgspec.Struct, frozen=True, rename="camel"):
    """A changed place with some lines around it; `old_text` is None for a created file."""

    path: str
    old_text: str | None
    new_text: str


def hunks(path: str, before: str | None, after: str) -> tuple[Hunk, ...]:
    """The places where `after` differs from `before`."""
    if before is None:
        return (Hunk(path, None, after),)
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    start = _common_prefix(old, new)
    end = _common_prefix(old[start:][::-1], new[start:][::-1])
    # Only the middle can differ; comparing whole files would make a small edit cost their size.
    lead = max(0, start - CONTEXT_LINES)
    old = old[lead : len(old) - max(0, end - CONTEXT_LINES)]
    new = new[lead : len(new) - max(0, end - CONTEXT_LINES)]
    if old == new:
        return ()
    if len(old) + len(new) > _MAX_LINES:
        return (Hunk(path, "".join(old), "".join(new)),)
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    return tuple(
        Hunk(
            path,
            "".join(old[group[0][1] : group[-1][2]]),
            "".join(new[group[0][3] : group[-1][4]]),
        )
        for group in groups
    )


def _common_prefix(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
