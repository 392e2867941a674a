"""A window of numbered lines over text that comes in pieces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec


class NumberedLine(msgspec.Struct, frozen=True):
    """A line of a file; `number` counts from 1."""

    number: int
    text: str


@dataclass(slots=True, kw_only=True)
class LineWindow:
    """Selects `limit` lines from line `offset` on and counts all of them.

    Lines end with LF, one CR before it is dropped, and a last line break begins no further line.
    A line longer than `max_line_length` characters is cut with a note. Selection ends before the
    line that would take it over `max_bytes` of UTF-8; counting goes on.
    """

    offset: int
    limit: int
    max_line_length: int
    max_bytes: int
    lines: list[NumberedLine] = field(default_factory=list[NumberedLine])
    total: int = 0
    stopped_by: Literal["limit", "bytes"] | None = None
    _bytes: int = 0
    _rest: str = ""

    def feed(self, piece: str) -> None:
        """Take the next part of the text."""
        if "\n" not in piece:
            self._rest += piece
            return
        first, *middle, rest = piece.split("\n")
        self._line(self._rest + first)
        self._rest = rest
        if self.stopped_by or self.total + len(middle) < self.offset:
            self.total += len(middle)  # nothing of these is wanted: count only
            return
        for line in middle:
            self._line(line)

    def finish(self) -> None:
        """The text ended."""
        if self._rest:
            self._line(self._rest)
            self._rest = ""

    def _line(self, text: str) -> None:
        self.total += 1
        if self.total < self.offset or self.stopped_by:
            return
        if len(self.lines) >= self.limit:
            self.stopped_by = "limit"
            return
        text = self._shown(text.removesuffix("\r"))
        size = len(text.encode("utf-8", "replace")) + 1
        if self._bytes + size > self.max_bytes and self.lines:
            self.stopped_by = "bytes"
            return
        self._bytes += size
        self.lines.append(NumberedLine(self.total, text))

    def _shown(self, text: str) -> str:
        if len(text) <= self.max_line_length:
            return text
        return f"{text[: self.max_line_length]}… [line cut at {self.max_line_length} characters]"
