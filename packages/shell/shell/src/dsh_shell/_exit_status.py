"""The marker lines that end a command's text."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_MARKER: Final = re.compile(
    r"\n\[(?:killed by signal: (?P<signal>[^\]\n]+)|exit code: (?P<code>\d+))\]\Z"
)


class ExitStatus(msgspec.Struct, frozen=True):
    """A command's text without its last marker, and what the marker said."""

    body: str
    exit_code: int | None
    signal: str | None


def parse_exit_status(text: str) -> ExitStatus:
    """Split off a last line `[killed by signal: X]` or `[exit code: N]`; without one, exit 0."""
    match = _MARKER.search(text)
    if match is None:
        return ExitStatus(text, 0, None)
    body = text[: match.start()]
    if match["signal"] is not None:
        return ExitStatus(body, None, match["signal"])
    return ExitStatus(body, int(match["code"]), None)
