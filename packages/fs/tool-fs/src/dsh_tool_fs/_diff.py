"""Hunks of a change, for showing it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

import msgspec

CONTEXT_LINES: Final = 3
MAX_CHARACTERS: Final = 65_536
"""Most text of one change, both sides of all hunks together: it goes into the session's log."""

_MAX_LINES: Final = 2_000
"""Beyond this much changed text, comparing line by line costs more than it shows."""


class Hunk(msgspec.Struct, frozen=True, rename="camel"):
    """A changed place with some lines around it; `old_text` is None for a created file."""

    path: str
    old_text: str | None
    new_text: str


class Change(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a change did; `truncated` if there is more than is shown."""

    diffs: tuple[Hunk, ...]
    truncated: bool = False


def change(path: str, before: str | None, after: str) -> Change:
    """The places where `after` differs from `before`, cut to `MAX_CHARACTERS`."""
    shown: list[Hunk] = []
    left = MAX_CHARACTERS
    for hunk in _hunks(path, before, after):
        old = hunk.old_text
        if len(old or "") + len(hunk.new_text) <= left:
            shown.append(hunk)
            left -= len(old or "") + len(hunk.new_text)
            continue
        if left:
            half = left if old is None else left // 2
            cut = None if old is None else old[:half]
            shown.append(Hunk(path, cut, hunk.new_text[:half]))
        return Change(tuple(shown), truncated=True)
    return Change(tuple(shown))


def _hunks(path: str, before: str | None, after: str) -> Iterator[Hunk]:
    if before is None:
        yield Hunk(path, None, after)
        return
    if before == after:
        return
    old, new = _lines(before), _lines(after)
    start = _common(old, new)
    end = min(_common(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    # Only the middle can differ; comparing whole files would make a small edit cost their size.
    lead, tail = max(0, start - CONTEXT_LINES), max(0, end - CONTEXT_LINES)
    old, new = old[lead : len(old) - tail], new[lead : len(new) - tail]
    if len(old) + len(new) > _MAX_LINES:
        yield Hunk(path, "".join(old), "".join(new))
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        yield Hunk(path, "".join(old[first[1] : last[2]]), "".join(new[first[3] : last[4]]))


def _lines(text: str) -> list[str]:
    """Lines with their ends; only LF ends one, as for the tools that number them."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _common(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
