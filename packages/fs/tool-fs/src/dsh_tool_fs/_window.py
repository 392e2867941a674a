"""A window of numbered lines over text that comes in pieces."""

from __future__ import annotations

import msgspec


class NumberedLine(msgspec.Struct, frozen=True):
    """A line of a file; `number` counts from 1."""

    number: int
    text: str


class LineWindow(msgspec.Struct, kw_only=True):
    """Selects `limit` lines from line `offset` on and counts all of them.

    Lines end with LF, one CR before it is dropped, and a last line break begins no further line.
    A line longer than `max_line_length` characters is cut with a note. Selection ends before the
    line that would take it over `max_bytes` of UTF-8; counting goes on. If that is the first line,
    it is cut to fit. What is kept never grows with the file, whatever the length of its lines.
    """

    offset: int
    limit: int
    max_line_length: int
    max_bytes: int
    lines: list[NumberedLine] = msgspec.field(default_factory=list[NumberedLine])
    total: int = 0
    capped: bool = False
    """Whether `max_bytes` ended the selection."""
    _full: bool = False
    _bytes: int = 0
    _line: str = ""
    """The start of the line that has not ended: enough to see that it is too long."""
    _open: bool = False
    """Whether there is such a line."""

    def feed(self, piece: str) -> None:
        """Take the next part of the text."""
        at = self._skipped(piece)
        while not self._full:
            end = piece.find("\n", at)
            self._extend(piece, at, len(piece) if end < 0 else end)
            if end < 0:
                return
            self._end_line()
            at = end + 1
        self.total += piece.count("\n", at)
        if at < len(piece):
            self._open = not piece.endswith("\n")

    def finish(self) -> None:
        """The text ended."""
        if self._open:
            self._end_line()

    def _skipped(self, piece: str) -> int:
        """Count the lines before `offset`; where in `piece` the rest begins."""
        ahead = self.offset - 1 - self.total
        if ahead <= 0 or not piece:
            return 0
        *skipped, rest = piece.split("\n", min(ahead, len(piece)))
        self.total += len(skipped)
        if len(skipped) == ahead:
            self._open = False
            return len(piece) - len(rest)
        self._open = bool(rest) or (self._open and not skipped)
        return len(piece)

    def _extend(self, piece: str, start: int, end: int) -> None:
        if start < end:
            self._open = True
            # With room for the CR, which does not count.
            room = self.max_line_length + 2 - len(self._line)
            self._line += piece[start : min(end, start + room)]

    def _end_line(self) -> None:
        line, self._line, self._open = self._line.removesuffix("\r"), "", False
        self.total += 1
        if self._full or self.total < self.offset:
            return
        text = self._shown(line)
        if self._bytes + _size(text) > self.max_bytes:
            self.capped = self._full = True
            if self.lines:
                return
            text = self._squeezed(line)
        self._bytes += _size(text)
        self.lines.append(NumberedLine(self.total, text))
        self._full = self._full or len(self.lines) >= self.limit

    def _shown(self, line: str) -> str:
        if len(line) <= self.max_line_length:
            return line
        return f"{line[: self.max_line_length]}… [line cut at {self.max_line_length} characters]"

    def _squeezed(self, line: str) -> str:
        head = line[: self.max_line_length].encode("utf-8", "replace")[: self.max_bytes]
        return f"{head.decode('utf-8', 'ignore')}… [line cut at {self.max_bytes} bytes]"


def _size(text: str) -> int:
    """Bytes with the line break."""
    return len(text.encode("utf-8", "replace")) + 1
