"""Shows a run as it happens, from its JSON lines."""

from __future__ import annotations

import json
import os
from typing import Any, Final, TextIO, cast

_RESULT_LINES: Final = 20
_DIM: Final = "2"
_BOLD: Final = "1"
_CYAN: Final = "36"
_GREEN: Final = "32"
_RED: Final = "31"


class Progress:
    """Writes to `stream`; colours only if `colour`.

    What cannot be written raises `OSError` once; from then on everything goes nowhere.
    """

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        self._stream = stream
        self._colour = colour

    def headline(self, text: str) -> None:
        """A line that stands out."""
        self._print(self._paint(_BOLD, text))

    def note(self, text: str) -> None:
        """A line that does not."""
        self._print(self._paint(_DIM, text))

    def verdict(self, text: str, *, good: bool) -> None:
        """How it ended."""
        self._print(self._paint(_GREEN if good else _RED, text))

    def line(self, raw: bytes) -> None:
        """One line of the run's output."""
        line: dict[str, Any] = json.loads(raw)
        match line["type"]:
            case "session":
                self.note(f"session {line['sessionId']}")
            case "status" if line["phase"] == "retry":
                self.note(f"retry {line['attempt']} after {line['code']}")
            case "reasoning":
                self.note(f"  {line['text']}")
            case "text":
                self._print(f"  {line['text']}")
            case "tool_call":
                self._call(line["tool"], line["input"])
            case "tool_result":
                self._result(line["result"], failed=line["status"] == "error")
            case "error":
                self.verdict(f"{line['code']}: {line['message']}", good=False)
            case _:
                pass

    def _call(self, tool: str, arguments: object) -> None:
        shown = arguments
        if isinstance(arguments, dict):
            fields = cast("dict[str, object]", arguments)
            shown = fields.get("command") or fields.get("file_path") or ""
        self._print(f"{self._paint(_CYAN, f'> {tool}')} {shown}")

    def _result(self, text: str, *, failed: bool) -> None:
        lines = text.splitlines()
        shown = lines if len(lines) <= _RESULT_LINES else ["...", *lines[-_RESULT_LINES:]]
        for line in shown:
            self._print(self._paint(_RED if failed else _DIM, f"    {line}"))

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _print(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        try:
            # A path or a tool may say what the terminal cannot show.
            self._stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
            self._stream.flush()
        except OSError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        # What is stuck in the buffer would be tried, and complained about, as the process ends.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())
