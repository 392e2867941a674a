"""The beginning, the end or both ends of a byte stream, as text."""

from __future__ import annotations

import codecs

import msgspec

from ._pushed import Pushed

_LONGEST_REST = 3
"""Bytes that a UTF-8 sequence has after its first one, at most."""


class RetainedText(msgspec.Struct, frozen=True, kw_only=True):
    """What a `TextRetainer` held in the end."""

    head: str
    """From the beginning; all of it if nothing is missing."""
    tail: str
    """From the end, behind the gap."""
    omitted_bytes: int
    """What stood in the gap, partial characters at its edges included."""

    @property
    def text(self) -> str:
        """Head and tail, without a mark between them."""
        return self.head + self.tail

    @property
    def truncated(self) -> bool:
        """Whether anything is missing."""
        return self.omitted_bytes > 0


class TextRetainer:
    """Keeps a bounded part of a UTF-8 stream, in whatever chunks it comes.

    Budgets are bytes. A character that a cut goes through is dropped and counted, and the bytes on
    both sides of a gap never make a character together. Bytes that are no UTF-8 become U+FFFD.
    """

    __slots__ = ("_head", "_head_bytes", "_seen", "_tail", "_tail_bytes")

    def __init__(self, *, head_bytes: int = 0, tail_bytes: int = 0) -> None:
        """Keep the first `head_bytes` and the last `tail_bytes`; either may be 0."""
        if head_bytes < 0 or tail_bytes < 0:
            raise ValueError(
                f"budgets must not be negative, got head_bytes={head_bytes!r},"
                f" tail_bytes={tail_bytes!r}"
            )
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def push(self, chunk: bytes | str) -> Pushed:
        """Take the next chunk; it may begin and end inside a character.

        Without a tail, nothing that follows is kept once a chunk that is not empty was not.
        """
        data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
        self._seen += len(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._push_tail(data[room:])
        # Even what the tail will push out again is held now.
        kept = bool(data) and (room > 0 or self._tail_bytes > 0)
        return Pushed(kept, self._seen > self._head_bytes + self._tail_bytes)

    def finish(self) -> RetainedText:
        """What is held so far, and how much is missing."""
        tail = bytes(self._tail[-self._tail_bytes :]) if self._tail_bytes else b""
        if self._seen == len(self._head) + len(tail):
            # As one buffer: a character may lie across what would have been the gap.
            whole = bytes(self._head) + tail
            return RetainedText(head=whole.decode("utf-8", "replace"), tail="", omitted_bytes=0)
        head_text, used = codecs.utf_8_decode(self._head, "replace", False)  # noqa: FBT003 - takes no keywords
        tail = tail[_rest_of_a_character(tail) :]
        return RetainedText(
            head=head_text,
            tail=tail.decode("utf-8", "replace"),
            omitted_bytes=self._seen - used - len(tail),
        )

    def _push_tail(self, data: bytes) -> None:
        if not self._tail_bytes:
            return
        self._tail += data[-self._tail_bytes :]
        # Trimmed now and then, so that small chunks do not move the whole tail each time.
        if len(self._tail) >= 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]


def _rest_of_a_character(data: bytes) -> int:
    """How many bytes at the start belong to a character that began before."""
    count = 0
    for byte in data[:_LONGEST_REST]:
        if byte & 0b1100_0000 != 0b1000_0000:
            break
        count += 1
    return count
