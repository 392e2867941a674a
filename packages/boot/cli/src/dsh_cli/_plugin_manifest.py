"""Editing a profile's pyproject.toml by hand, as a careful person would: two lists, nothing else.

Comments, order and layout stay. What comes out is parsed again and compared with what was wanted
before anybody writes it, so that a file of a shape not foreseen here is refused, never spoilt.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ._plugin_errors import PluginError

_HEADER: Final = re.compile(r"\[\[?([^\]\n]*)\]\]?")
_PART: Final = re.compile(r"""\s*(?:"([^"\\]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")
_QUOTES: Final = ('"""', "'''", '"', "'")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)")


def edit_manifest(
    text: str,
    *,
    dependencies: Sequence[str],
    bundles: Sequence[str],
    name_of: Callable[[str], str],
) -> str:
    """`text` with these two lists; entries of the same name stay where they are.

    `name_of` gives the name that a dependency is known by. Raises PluginError (`MANIFEST`).
    """
    wanted: dict[str, Any] = copy.deepcopy(tomllib.loads(text))
    wanted.setdefault("project", {})["dependencies"] = list(dependencies)
    wanted["tool"]["dsh"]["profile"]["bundles"] = list(bundles)
    edited = _with_list(text, ("project",), "dependencies", (dependencies, name_of))
    edited = _with_list(edited, ("tool", "dsh", "profile"), "bundles", (bundles, str))
    try:
        reached = tomllib.loads(edited)
    except tomllib.TOMLDecodeError:
        reached = None
    if reached != wanted:
        raise PluginError(
            "pyproject.toml is written in a way that dsh does not edit; write into it yourself:"
            f" [project] dependencies = {_array(dependencies)} and"
            f" [tool.dsh.profile] bundles = {_array(bundles)}, then run sync",
            code="MANIFEST",
        )
    return edited


class _Entry(NamedTuple):
    """One string of an array: where it stands, with its quotes, and what it says."""

    start: int
    end: int
    value: str


class _Statement(NamedTuple):
    """One `key = value`, or a header with its end as both ends of the value."""

    table: tuple[str, ...]
    key: tuple[str, ...]
    start: int
    end: int


def _with_list(
    text: str,
    table: tuple[str, ...],
    key: str,
    wanted: tuple[Sequence[str], Callable[[str], str]],
) -> str:
    values, name_of = wanted
    newline = "\r\n" if "\r\n" in text else "\n"
    own = [one for one in _statements(text) if one.table == table]
    if not own:
        lead = "" if text.endswith("\n") or not text else newline
        header = f"[{'.'.join(table)}]"
        added = newline.join([header, f"{key} = {_array(values)}", ""])
        return f"{text}{lead}{newline}{added}" if values else text
    found = next((one for one in own if one.key == (key,)), None)
    if found is None:
        rest = _REST_OF_LINE.match(text, own[-1].end)
        at = rest.end() if rest else own[-1].end
        lead = "" if text[:at].endswith("\n") else newline
        return f"{text[:at]}{lead}{key} = {_array(values)}{newline}{text[at:]}" if values else text
    array = text[found.start : found.end]
    return text[: found.start] + _edited(array, values, name_of, newline) + text[found.end :]


def _edited(array: str, values: Sequence[str], name_of: Callable[[str], str], newline: str) -> str:
    entries = list(_entries(array))
    by_name = {name_of(value): value for value in values}
    for entry in reversed(entries):
        value = by_name.get(name_of(entry.value))
        if value is None:
            array = _without(array, entry)
        elif value != entry.value:
            array = array[: entry.start] + _string(value) + array[entry.end :]
    known = {name_of(entry.value) for entry in entries}
    for value in values:
        if name_of(value) not in known:
            array = _appended(array, value, newline)
    return array


def _without(array: str, entry: _Entry) -> str:
    line = array.rfind("\n", 0, entry.start) + 1
    end = _after_comma(array, entry.end)
    rest = _REST_OF_LINE.match(array, end)
    if line and rest and not array[line : entry.start].strip():
        return array[:line] + array[rest.end() :]
    if end > entry.end:
        while array[end : end + 1] in {" ", "\t"}:
            end += 1
        return array[: entry.start] + array[end:]
    # The last one: the comma before it goes too, unless a comment stands between them.
    last = max((one.end for one in _entries(array) if one.end <= entry.start), default=None)
    comma = entry.start if last is None else _after_comma(array, last) - 1
    start = entry.start if array[comma + 1 : entry.start].strip() else comma
    return array[:start] + array[entry.end :]


def _appended(array: str, value: str, newline: str) -> str:
    entries = list(_entries(array))
    if not entries:
        inside = array[1:-1]
        if not inside.strip():
            return f"[{_string(value)}]"
        lead = "" if inside.endswith("\n") else newline
        return f"{array[:-1]}{lead}    {_string(value)},{newline}]"
    last = entries[-1]
    line = array.rfind("\n", 0, last.start) + 1
    end = _after_comma(array, last.end)
    comma = "" if end > last.end else ","
    indent = array[line : last.start]
    if not line or indent.strip():
        return f"{array[: last.end]}, {_string(value)}{array[last.end :]}"
    rest = _REST_OF_LINE.match(array, end)
    if rest is None:  # the closing bracket stands on the line of the last entry
        return f"{array[: last.end]},{newline}{indent}{_string(value)}{array[last.end :]}"
    kept = f"{array[: last.end]}{comma}{array[last.end : rest.end()]}"
    return f"{kept}{indent}{_string(value)},{newline}{array[rest.end() :]}"


def _after_comma(array: str, end: int) -> int:
    at = _skip_blank(array, end)
    return at + 1 if array[at : at + 1] == "," else end


def _entries(array: str) -> Iterator[_Entry]:
    if not array.startswith("["):
        return
    at = _skip_blank(array, 1)
    while at < len(array) and array[at] in "\"'":
        end = _skip_string(array, at)
        yield _Entry(at, end, tomllib.loads(f"v = {array[at:end]}")["v"])
        at = _skip_blank(array, end)
        if array[at : at + 1] == ",":
            at = _skip_blank(array, at + 1)


def _statements(text: str) -> Iterator[_Statement]:
    table: tuple[str, ...] = ()
    at = _skip_blank(text, 0)
    while at < len(text):
        if text[at] == "[":
            header = _HEADER.match(text, at)
            if header is None:
                return
            table = _key(header[1])
            at = header.end()
            yield _Statement(table, (), at, at)
        else:
            equals = text.find("=", at)
            if equals < 0:
                return
            start = equals + 1
            while text[start : start + 1] in {" ", "\t"}:
                start += 1
            end = _skip_value(text, start)
            yield _Statement(table, _key(text[at:equals]), start, end)
            at = end
        at = _skip_blank(text, at)


def _key(text: str) -> tuple[str, ...]:
    return tuple(next(part for part in match.groups() if part) for match in _parts(text))


def _parts(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _PART.finditer(text) if any(match.groups()))


def _skip_blank(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _skip_value(text: str, at: int) -> int:
    """The end of a value: brackets closed, and a newline or a comment follows."""
    depth, end = 0, at
    while at < len(text):
        one = text[at]
        if one in "\"'":
            at = end = _skip_string(text, at)
            continue
        if one == "#":
            if not depth:
                break
            at = _skip_blank(text, at)
            continue
        if one == "\n" and not depth:
            break
        depth += (one in "[{") - (one in "]}")
        at += 1
        if not one.isspace():
            end = at
    return end


def _skip_string(text: str, at: int) -> int:
    quote = next(quote for quote in _QUOTES if text.startswith(quote, at))
    at += len(quote)
    while at < len(text) and not text.startswith(quote, at):
        at += 2 if text[at] == "\\" and quote[0] == '"' else 1
    at += len(quote)
    # A long string may end in up to two quotes of its own.
    while len(quote) == 3 and text[at : at + 1] == quote[0]:
        at += 1
    return at


def _array(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_string, values))}]"


def _string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
