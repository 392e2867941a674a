"""The `.env` format: names, quotes and comments, no expansion and no commands."""

from __future__ import annotations

import re
from typing import Final

_BLANK: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_NAME: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*")
_QUOTED: Final = {
    "'": re.compile(r"'([^']*)'"),
    "`": re.compile(r"`([^`]*)`"),
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL),
}
_COMMENT: Final = re.compile(r"(?:^|[ \t])#.*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def parse_dotenv(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables of a `.env` text and the numbers, from 1, of lines that set nothing.

    `NAME=value` or `export NAME=value`. A value may be quoted by `'`, backtick or `"` and then
    span lines; inside `"` a backslash escapes (`\\n`, `\\r`, `\\t`, else the character itself).
    An unquoted value ends at ` #`. The last of equal names wins.
    """
    text = text.replace("\r\n", "\n")
    variables: dict[str, str] = {}
    bad_lines: list[int] = []
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        name = _NAME.match(text, at)
        found = _value(text, name.end()) if name else None
        if name is None or found is None:
            bad_lines.append(text.count("\n", 0, at) + 1)
            at = _line_end(text, at)
        else:
            variables[name[1]], at = found
    return variables, bad_lines


def _value(text: str, at: int) -> tuple[str, int] | None:
    """The value that begins at `at` and where the next line begins; None if it is malformed."""
    quote = text[at : at + 1]
    if quote not in _QUOTED:
        end = _line_end(text, at)
        value = _COMMENT.sub("", text[at:end].rstrip("\n")).strip()
        return None if "\x00" in value else (value, end)
    quoted = _QUOTED[quote].match(text, at)
    rest = _BLANK.match(text, quoted.end()) if quoted else None
    if quoted is None or rest is None or "\x00" in quoted[1]:
        return None
    value = quoted[1]
    if quote == '"':
        value = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), value)
    return value, rest.end()


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline + 1
