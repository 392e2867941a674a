"""Server-sent events out of raw bytes, whatever the pieces in which they arrive."""

from __future__ import annotations

import codecs
from typing import Final

from dsh_llm import LlmError

DONE: Final = b"[DONE]"
"""The payload that ends a stream; it counts as soon as its line is complete."""

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Of one unfinished event. A server that never ends a line must not fill the memory."""


class SseParser:
    """Bytes in, payloads of complete events out; fields other than `data` are of no interest."""

    __slots__ = ("_after_cr", "_data", "_data_bytes", "_fresh", "_tail", "seen_bytes")
    seen_bytes: int
    """How many bytes were fed so far."""

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._fresh = True
        self.seen_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that `data` completes, in order.

        Raises `LlmError` with `MALFORMED_RESPONSE` for an event of more than 16 MiB.
        """
        self.seen_bytes += len(data)
        if data.startswith(b"data: {") and not (self._tail or self._data or self._after_cr):
            # Most servers write one event at a time: nothing to split, join or keep then.
            end = data.find(b"\n")
            if end == len(data) - 2 and data.endswith(b"\n\n") and b"\r" not in data:
                self._fresh = False
                return [data[6:end]]
        if self._after_cr or b"\r" in data:
            data = self._normalized(data)
        if self._tail:
            data = self._tail + data
        lines = data.split(b"\n")
        self._tail = lines.pop()
        if self._fresh and lines:
            self._fresh = False
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        payloads: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line, payloads)
            elif not line and self._data:
                payloads.append(self._event())
            elif line == b"data":
                self._data.append(b"")
        if len(self._tail) + self._data_bytes > MAX_EVENT_BYTES:
            raise LlmError(
                f"the provider sent an event of more than {MAX_EVENT_BYTES} bytes",
                code="MALFORMED_RESPONSE",
            )
        return payloads

    def _normalized(self, data: bytes) -> bytes:
        """`data` with every line end as one newline, also one whose two bytes come apart."""
        if not data:
            return data
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take(self, line: bytes, payloads: list[bytes]) -> None:
        payload = line[6:] if line.startswith(b"data: ") else line[5:]
        if payload == DONE and not self._data:
            payloads.append(payload)
            return
        self._data.append(payload)
        self._data_bytes += len(payload)

    def _event(self) -> bytes:
        lines = self._data
        payload = lines[0] if len(lines) == 1 else b"\n".join(lines)
        self._data = []
        self._data_bytes = 0
        return payload
