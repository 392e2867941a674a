"""Hunks of a change, for showing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    old, new = _different(before, after)
    # Counted before they are cut apart: neither may cost the size of a large file.
    if old.count("\n") + new.count("\n") > _MAX_LINES:
        yield Hunk(path, old, new)
        return
    from difflib import SequenceMatcher  # only an edit needs it

    old_lines, new_lines = _lines(old), _lines(new)
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        old = "".join(old_lines[first[1] : last[2]])
        yield Hunk(path, old, "".join(new_lines[first[3] : last[4]]))


def _different(before: str, after: str) -> tuple[str, str]:
    """The lines between the first and the last difference, with their context."""
    most = min(len(before), len(after))
    same = _longest(most, lambda low, high: before[low:high] == after[low:high])
    start = before.rfind("\n", 0, same) + 1

    def ends_alike(low: int, high: int) -> bool:
        return _ending(before, low, high) == _ending(after, low, high)

    tail = _longest(most - start, ends_alike)
    # Within the shared ending, past its first line break; without one the last line differs.
    end = before.find("\n", len(before) - tail) + 1 or len(before)
    for _ in range(CONTEXT_LINES):
        start = before.rfind("\n", 0, start - 1) + 1 if start else 0
        end = before.find("\n", end) + 1 or len(before)
    return before[start:end], after[start : len(after) - (len(before) - end)]


def _longest(most: int, same: Callable[[int, int], bool]) -> int:
    """How many characters are the same, by halves: comparing slices runs at memory speed."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _ending(text: str, low: int, high: int) -> str:
    """From `high` to `low` characters before the end."""
    return text[len(text) - high : len(text) - low]


def _lines(text: str) -> list[str]:
    """Lines with their ends; only LF ends one, as for the tools that number them."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]
