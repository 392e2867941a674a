"""Editing a list in a YAML file without touching what an edit does not concern.

Items of the list that an edit leaves alone keep every byte. The one that it changes goes through
ruamel.yaml, which keeps comments, order and quotes; scalars pass as text, whatever they mean.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence
from typing import Any, Final, TypeAlias, cast

import yaml
from dsh_cordis_loader import Expr, LoaderError, read_yaml, write_yaml

from ._comments import Comments, composed
from ._errors import IncludeError

Convert: TypeAlias = Callable[[object], Any]
"""Makes a value fit into the container that is being edited."""
Edit: TypeAlias = Callable[[Any, Convert], None]
"""Changes one item in place; run on plain values and on the document alike."""

_STEP: Final = 2


class ListDocument:
    """The text of one top-level list, and edits of its items.

    Raises LoaderError (`INVALID_YAML`) for text that cannot be read and IncludeError
    (`CONFIG_INVALID`) for one that is no list, or an edit that would change something else.
    """

    text: str
    items: list[object]
    """The items as plain values."""

    def __init__(self, text: str, *, where: str) -> None:
        self._where = where
        self._accept(text)

    def change(self, index: int, edit: Edit) -> None:
        """Edit one item in place."""
        expected = copy.deepcopy(self.items)
        edit(expected[index], copy.deepcopy)
        if self._flow:
            self._rewrite(lambda items, convert: edit(items[index], convert))
        else:
            first, last = self._region(index)
            before, after = self._lines[:first], self._lines[last:]
            item = _Item(self._lines[first:last], self._column)
            edit(item.value, _loaded)
            try:
                self._accept("".join([*before, *item.lines(), *after]))
            except (LoaderError, yaml.YAMLError):
                self.items = []
            if self.items != expected:
                # Some mixes of comments and new lists are beyond the library: written anew, the
                # item keeps its lines of comments.
                item.value = _loaded(expected[index])
                self._accept("".join([*before, *item.lines(), *after]))
        self._verify(expected)

    def insert(self, index: int, value: Mapping[str, object]) -> None:
        """Put a new item before that index; past the end appends."""
        expected = copy.deepcopy(self.items)
        expected.insert(index, value)
        if self._flow and self.items:
            self._rewrite(lambda items, convert: items.insert(index, convert(value)))
        else:
            self._splice(index, _rendered(value, self._column, self._offset))
        self._verify(expected)

    def delete(self, index: int) -> None:
        """Take one item out."""
        expected = [*self.items[:index], *self.items[index + 1 :]]
        if self._flow:
            self._rewrite(lambda items, _convert: items.__delitem__(index))
        else:
            first, last = self._region(index)
            self._lines[first:last] = [] if expected else [f"[]{self._newline}"]
            self._accept("".join(self._lines))
        self._verify(expected)

    # -- text -------------------------------------------------------------------------------------

    def _accept(self, text: str) -> None:
        value = read_yaml(text, where=self._where)
        if not isinstance(value, list):
            raise IncludeError(f"{self._where}: expected a list", code="CONFIG_INVALID")
        self.text = text
        self.items = cast("list[object]", value)
        self._lines = text.splitlines(keepends=True)
        self._newline = "\r\n" if self._lines and self._lines[0].endswith("\r\n") else "\n"
        node = composed(text)
        self._flow: bool = bool(node.flow_style)
        self._column: int = 0 if self._flow else node.start_mark.column
        self._offset = _offset(node)
        end: Any = node.end_mark
        self._first_line: int = node.start_mark.line
        self._last: tuple[int, int] = (end.line, end.column)
        self._starts = [] if self._flow else [self._dash(item) for item in node.value]

    def _dash(self, item: Any) -> int:  # noqa: ANN401 - a node of the library
        line: int = item.start_mark.line
        while self._lines[line].removeprefix("\ufeff")[self._column : self._column + 1] != "-":
            line -= 1
        return line

    def _region(self, index: int) -> tuple[int, int]:
        """The lines of one item, less the comments that stand before the next one."""
        first = self._starts[index]
        more = index + 1 < len(self._starts)
        last = self._starts[index + 1] if more else len(self._lines)
        while last - 1 > first and self._outside(self._lines[last - 1]):
            last -= 1
        return first, last

    def _outside(self, line: str) -> bool:
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        return not bare or (bare.startswith(("#", "...")) and indent <= self._column)

    def _splice(self, index: int, rendered: str) -> None:
        text = rendered.replace("\n", self._newline)
        if self._flow:  # an empty one: `[]`
            line, column = self._last
            before, after = self._lines[: self._first_line], self._lines[line + 1 :]
            rest = self._lines[line][column:].strip()
            comment = [rest + self._newline] if rest else []
            lines = [*before, *comment, text, *after]
        else:
            at_end = index >= len(self._starts)
            line = self._region(len(self._starts) - 1)[1] if at_end else self._starts[index]
            lines = [*self._lines[:line], text, *self._lines[line:]]
            if line and not lines[line - 1].endswith("\n"):
                lines[line - 1] += self._newline
        self._accept("".join(lines))

    def _rewrite(self, edit: Edit) -> None:
        """Edit a list in flow style as a whole."""
        round_trip = _round_trip(2)
        document = round_trip.load(self.text.removeprefix("\ufeff"))
        edit(document, _loaded)
        self._accept(_dumped(round_trip, document).replace("\n", self._newline))

    def _verify(self, expected: list[object]) -> None:
        if self.items != expected:
            raise IncludeError(
                f"{self._where} cannot be edited without changing other parts; edit it by hand",
                code="CONFIG_INVALID",
            )


class JsonDocument:
    """A JSON list: edited as values, written anew."""

    text: str
    items: list[object]

    def __init__(self, text: str, *, where: str) -> None:
        value = read_yaml(text, where=where)
        if not isinstance(value, list):
            raise IncludeError(f"{where}: expected a list", code="CONFIG_INVALID")
        self._where = where
        self.text = text
        self.items = cast("list[object]", value)

    def change(self, index: int, edit: Edit) -> None:
        """Edit one item in place."""
        edit(self.items[index], copy.deepcopy)
        self._write()

    def insert(self, index: int, value: Mapping[str, object]) -> None:
        """Put a new item before that index; past the end appends."""
        self.items.insert(index, dict(value))
        self._write()

    def delete(self, index: int) -> None:
        """Take one item out."""
        del self.items[index]
        self._write()

    def _write(self) -> None:
        self.text = write_json(self.items, where=self._where)


Document: TypeAlias = ListDocument | JsonDocument


def write_json(value: object, *, where: str) -> str:
    """Plain data as indented JSON. Raises IncludeError for an `!expr`, which JSON cannot hold."""
    import json

    try:
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    except TypeError:
        raise IncludeError(
            f"{where}: JSON cannot hold !expr; use .yml", code="CONFIG_INVALID"
        ) from None


def set_fields(target: Any, fields: Mapping[str, object], convert: Convert) -> None:  # noqa: ANN401 - plain or round-trip mapping
    """Set keys of a mapping, keeping whatever parts of the old values stay as they are."""
    for key, value in fields.items():
        if key in target and _synchronised(target[key], value, convert):
            continue
        target[key] = convert(value)


def _synchronised(old: object, new: object, convert: Convert) -> bool:
    """Whether `old` could be turned into `new` in place."""
    if isinstance(old, MutableMapping) and isinstance(new, Mapping) and new:
        mapping = cast("MutableMapping[str, object]", old)
        wanted = cast("Mapping[str, object]", new)
        for key in [key for key in mapping if key not in wanted]:
            del mapping[key]
        set_fields(mapping, wanted, convert)
        return True
    if isinstance(old, MutableSequence) and isinstance(new, list) and new:
        sequence = cast("MutableSequence[object]", old)
        items = cast("list[object]", new)
        del sequence[len(items) :]
        for index, item in enumerate(items):
            if index >= len(sequence):
                sequence.append(convert(item))
            elif not _synchronised(sequence[index], item, convert):
                sequence[index] = convert(item)
        return True
    return _same(cast("object", old), cast("object", new))


def _same(old: object, new: object) -> bool:
    """Whether a scalar of the document says the same already, and how is the user's choice."""
    if isinstance(new, Expr):
        tag = getattr(getattr(old, "tag", None), "value", None)
        return tag == "!expr" and str(getattr(old, "value", "")) == new.text
    # A subclass of text is quoted; plain words may mean something else and are set again.
    return isinstance(old, str) and type(old) is not str and old == new


class _Item:
    """One item of a block list as a document of its own."""

    def __init__(self, lines: list[str], column: int) -> None:
        first = lines[0].removeprefix("\ufeff")
        self._bom = lines[0].startswith("\ufeff")
        self._newline = "\r\n" if first.endswith("\r\n") else "\n"
        opened = [f"{first[:column]} {first[column + 1 :]}", *lines[1:]]
        content = next(line for line in opened if line.strip())
        self._column = column
        self._indent = len(content) - len(content.lstrip(" "))
        text = "".join(_dedented(line, self._indent) for line in opened)
        self._comments = Comments(text)
        self._round_trip = _round_trip(_offset(composed(text)))
        self.value: Any = self._round_trip.load(self._comments.text)

    def lines(self) -> list[str]:
        """The item as lines of the list."""
        text = self._comments.put_back(_dumped(self._round_trip, self.value))
        item = _as_item(text, self._column, self._indent).replace("\n", self._newline)
        return [f"\ufeff{item}" if self._bom else item]


def _rendered(value: object, column: int, offset: int) -> str:
    text = _dumped(_round_trip(offset), _loaded(value))
    return _as_item(text, column, column + _STEP)


def _as_item(text: str, column: int, indent: int) -> str:
    lines = text.splitlines(keepends=True)
    dash = f"{' ' * column}-{' ' * (indent - column - 1)}"
    rest = [" " * indent + line if line.strip() else line for line in lines[1:]]
    return dash + lines[0] + "".join(rest)


def _dedented(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _loaded(value: object) -> Any:  # noqa: ANN401 - a round-trip container
    from ruamel.yaml.scalarstring import PlainScalarString

    loaded = _round_trip(_STEP).load(write_yaml(value))
    # Else it would take over the quotes of the value that it replaces, and become text.
    return PlainScalarString(loaded) if type(loaded) is str else loaded


def _round_trip(offset: int) -> Any:  # noqa: ANN401 - the library's type is known only when it is needed
    from ruamel.yaml import YAML  # 80 ms that only a write pays
    from ruamel.yaml.resolver import VersionedResolver

    class Untyped(VersionedResolver):
        """Takes every plain scalar as text, so that it is written back as it was."""

        @property
        def versioned_resolver(self) -> Any:  # noqa: ANN401 - the library's signature
            return {}

    round_trip = YAML(typ="rt")
    round_trip.Resolver = Untyped
    round_trip.preserve_quotes = True
    round_trip.width = 2**20
    round_trip.indent(mapping=_STEP, sequence=_STEP + offset, offset=offset)
    return round_trip


def _dumped(round_trip: Any, value: object) -> str:  # noqa: ANN401 - see _round_trip
    stream = io.StringIO()
    round_trip.dump(value, stream)
    return re.sub(r"\n\.\.\.\n\Z", "\n", stream.getvalue())


def _offset(node: Any) -> int:  # noqa: ANN401 - a node of the library
    """How far lists stand to the right of the key that holds them; 2 if there is none."""
    if node.id == "scalar":
        return _STEP
    children: list[Any] = node.value
    if node.id == "mapping":
        for key, value in node.value:
            if value.id == "sequence" and not value.flow_style and not node.flow_style:
                return max(0, value.start_mark.column - key.start_mark.column)
        children = [value for _, value in node.value]
    found = (_offset(child) for child in children)
    return next((offset for offset in found if offset != _STEP), _STEP)
