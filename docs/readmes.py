"""Fills the tables of every member's README between their markers.

`python docs/readmes.py` writes them, `--check` only says whether they are current and complete.
Configuration is read from the types that check it, events from the sources:

    <!-- generated: config -->               of the row that is named like the distribution
    <!-- generated: config module:Type -->   of a type that no row has
    <!-- generated: events -->               of the keys that the package declares
    <!-- /generated -->
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
from catalogues import LOGGED, ROOT, Found, keys, parts, row
from msgspec import inspect

CONFIG_HEAD: Final = "| Key | Type | Default | Unit | Meaning |\n|---|---|---|---|---|\n"
EVENTS_HEAD: Final = "| Event | Key | Mode | Payload | Result | When |\n|---|---|---|---|---|---|\n"
MARKED: Final = re.compile(
    r"(<!-- generated: (\w+)(?: (\S+))? -->\n).*?(<!-- /generated -->)", re.DOTALL
)
UNITS: Final = {"Ms": "ms", "Bytes": "bytes", "Tokens": "tokens"}
WORDS: Final = {
    inspect.BoolType: "boolean",
    inspect.DictType: "object",
    inspect.FloatType: "number",
    inspect.IntType: "integer",
    inspect.StrType: "text",
    inspect.StructType: "object",
}
MOST_FIELDS: Final = 6
"""A payload with more is shown by its name alone."""


class StaleError(Exception):
    """A README that cannot be filled, or a source that does not say what a table needs."""


@dataclass(frozen=True)
class Member:
    """One distribution and what its tables are made from."""

    directory: Path

    @cached_property
    def project(self) -> dict[str, Any]:
        """The table of that name."""
        return tomllib.loads((self.directory / "pyproject.toml").read_text("utf-8"))["project"]

    @property
    def readme(self) -> Path:
        """What is filled."""
        return self.directory / "README.md"

    @cached_property
    def modules(self) -> list[ast.Module]:
        """Its sources, parsed."""
        source = self.directory / "src"
        return [ast.parse(path.read_text("utf-8")) for path in sorted(source.rglob("*.py"))]

    @cached_property
    def config(self) -> type | None:
        """What the row of its own name is configured with; None if there is nothing to say."""
        rows = self.project.get("entry-points", {}).get("dsh.plugins", {})
        target = rows.get(self.project["name"])
        kind = getattr(load(target), "Config", None) if target else None
        return kind if kind and msgspec.structs.fields(kind) else None

    @cached_property
    def events(self) -> list[Found]:
        """Its keys, in the order of the source, without those of a session's log."""
        package = self.project["name"].replace("-", "_")
        found = [key for module in self.modules for key in keys(package, module)]
        return [key for key in found if key.kind not in LOGGED]

    @cached_property
    def payloads(self) -> dict[str, str]:
        """How each class of data that it declares is made: `AgentFailed(agent, turn, error)`."""
        classes = [
            node
            for module in self.modules
            for node in module.body
            if isinstance(node, ast.ClassDef)
        ]
        return {node.name: _made(node) for node in classes}


def load(target: str) -> Any:  # noqa: ANN401 - whatever an entry point names
    """The object that `module:attr` or `module` names."""
    module, _, attribute = target.partition(":")
    found = importlib.import_module(module)
    for part in attribute.split(".") if attribute else ():
        found = getattr(found, part)
    return found


def members() -> Iterator[Member]:
    """Every member of the workspace."""
    for pattern in ("packages/*/*", "bundles/*", "profiles/*"):
        for path in sorted(ROOT.glob(f"{pattern}/pyproject.toml")):
            yield Member(path.parent)


def config_rows(kind: type, above: str = "") -> Iterator[str]:
    """A line for each field of a Struct and, below it, those of the Structs it holds.

    Raises `StaleError` if a field has no description.
    """
    for field in inspect.type_info(kind).fields:
        marks, bare = _unwrapped(field.type)
        key = f"{above}{field.encode_name}"
        meaning = next((text for text in marks.get("description", []) if text), "")
        if not meaning:
            raise StaleError(f"{kind.__module__}.{kind.__name__}.{field.name} has no description")
        unit = next(iter(marks.get("unit", [])), _unit(field.encode_name))
        full = meaning if meaning.endswith(".") else f"{meaning}."
        yield row(f"`{key}`", _type_text(bare), _default(field), unit, full)
        inner, dots = bare, "."
        if isinstance(inner, inspect.VarTupleType):
            inner, dots = _unwrapped(inner.item_type)[1], "[]."
        if isinstance(inner, inspect.StructType):
            yield from config_rows(inner.cls, f"{key}{dots}")


def event_rows(member: Member) -> Iterator[str]:
    """A line for each event. Raises `StaleError` if a key does not say when it is heard."""
    for key in member.events:
        if not key.meaning:
            raise StaleError(f"{key.package}.{key.key} has no text below it that says when")
        mode, payload, result = parts(key)
        if "contained" in key.options:
            mode += ", contained"
        made = member.payloads.get(payload) or payload
        cells = (f"`{text}`" if text else "" for text in (made, result))
        yield row(f"`{key.name}`", f"`{key.key}`", mode, *cells, key.meaning)


def _made(node: ast.ClassDef) -> str:
    """Empty for a class that is no plain data or has too many fields to show."""
    bases = {ast.unparse(base) for base in node.bases}
    decorators = {ast.unparse(item).partition("(")[0] for item in node.decorator_list}
    names = [
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    ]
    is_data = "dataclass" in decorators or "msgspec.Struct" in bases
    shown = is_data and len(names) <= MOST_FIELDS
    return f"{node.name}({', '.join(names)})" if shown else ""


def _unwrapped(kind: inspect.Type) -> tuple[dict[str, list[Any]], inspect.Type]:
    """A type without what describes it, the description first, and without its None."""
    marks: dict[str, list[Any]] = {}
    while True:
        if isinstance(kind, inspect.Metadata):
            for name, value in {**(kind.extra_json_schema or {}), **(kind.extra or {})}.items():
                marks.setdefault(name, []).append(value)
            kind = kind.type
        elif isinstance(kind, inspect.UnionType):
            others = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
            if len(others) != 1:
                return marks, kind
            [kind] = others
        else:
            return marks, kind


def _type_text(kind: inspect.Type) -> str:
    kind = _unwrapped(kind)[1]
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, inspect.VarTupleType):
        return f"list of {_type_text(kind.item_type)}"
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_type_text(one) for one in kind.types)
    return ", ".join(filter(None, (WORDS[type(kind)], _bounds(kind))))


def _bounds(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.StrType):
        return "not empty" if kind.min_length else ""
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return ""
    low, high = kind.ge, kind.le
    if isinstance(kind, inspect.IntType):
        low = kind.gt + 1 if kind.gt is not None else low
        high = kind.lt - 1 if kind.lt is not None else high
    elif kind.gt is not None or kind.lt is not None:
        ends = (("above", kind.gt), ("from", kind.ge), ("below", kind.lt), ("to", kind.le))
        return " ".join(f"{word} {_limit(end)}" for word, end in ends if end is not None)
    if high is None:
        return f"from {_limit(low)}" if low is not None else ""
    return f"{_limit(low)} to {_limit(high)}" if low is not None else f"to {_limit(high)}"


def _limit(value: float) -> str:
    return {2**53 - 1: "2^53-1", 2**31 - 1: "2^31-1"}.get(int(value), f"{value}")


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None or value is msgspec.NODEFAULT:
        return ""
    if isinstance(value, msgspec.Struct):
        return "" if value == type(value)() else f"`{json.dumps(_short(value))}`"
    return f"`{value}`" if value and isinstance(value, str) else f"`{json.dumps(_short(value))}`"


def _short(value: object) -> object:
    """As on file, without what has its default."""
    if isinstance(value, msgspec.Struct):
        fields = [(item, getattr(value, item.name)) for item in msgspec.structs.fields(value)]
        return {
            item.encode_name: _short(one)
            for item, one in fields
            if one != item.default and one is not msgspec.UNSET
        }
    return [_short(one) for one in value] if isinstance(value, tuple) else value


def _unit(name: str) -> str:
    return next((unit for suffix, unit in UNITS.items() if name.endswith(suffix)), "")


def filled(member: Member) -> str:
    """The README of `member` with its tables as they should be. Raises `StaleError`."""
    seen: set[str] = set()

    def fill(match: re.Match[str]) -> str:
        head, what, target, tail = match.groups()
        seen.add(what)
        if what == "config":
            kind = load(target) if target else member.config
            if kind is None:
                raise StaleError("its row has no configuration")
            return f"{head}{CONFIG_HEAD}{''.join(config_rows(kind))}{tail}"
        if what == "events":
            return f"{head}{EVENTS_HEAD}{''.join(event_rows(member))}{tail}"
        raise StaleError(f"nothing is generated as {what!r}")

    text = MARKED.sub(fill, member.readme.read_text("utf-8"))
    for what, needed in (("config", member.config), ("events", member.events)):
        if needed and what not in seen:
            raise StaleError(f"the marker of its {what} is missing")
    return text


def main() -> int:
    """Write or check the tables; 1 if a README is incomplete, or in a check not current."""
    complaints: list[str] = []
    for member in members():
        name = member.readme.relative_to(ROOT)
        try:
            text = filled(member)
        except StaleError as error:
            complaints.append(f"{name}: {error}")
            continue
        if text != member.readme.read_text("utf-8"):
            if "--check" in sys.argv[1:]:
                complaints.append(f"{name} is not current: run {sys.argv[0]}")
            else:
                member.readme.write_text(text, "utf-8")
    sys.stderr.writelines(f"{line}\n" for line in complaints)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
