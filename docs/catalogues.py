"""Writes docs/events.md and docs/session-events.md from the sources.

`python docs/catalogues.py` writes them, `--check` only says whether they are current. The sources
are read, not imported: a key's type arguments exist in its spelling alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MODES: Final = ("Emit", "Parallel", "Serial", "Bail", "Waterfall", "SyncWaterfall")
LOGGED: Final = ("LogEvent", "SurfaceEvent")
SOURCES: Final = ("packages/*/*/src", "bundles/*/src")

EVENTS_HEAD: Final = """\
# Events

What plugins can listen to, with the mode of dispatch: `emit` calls listeners in order, `parallel`
awaits them all, `serial` awaits one after another and stops at the first answer, `bail` does so
without awaiting. A `waterfall` listener is `async def listener(payload, next)` around the default:
it awaits `next()` and returns its result or another, or does not and decides alone; all others take
the payload alone. A contained event logs a listener that raises; a scoped one is heard in the
scope of its subject and above. Listen with `ctx.on(KEY, listener)`. Generated from the sources.

| Event | Key | Package | Mode | Payload | Result | Contained | Scoped | When |
|---|---|---|---|---|---|---|---|---|
"""

SESSION_EVENTS_HEAD: Final = """\
# Session events

What a session log holds. Surface events are the conversation; the others are in the log alone. A
field with `?` may be absent. Generated from the sources.

| Event | Key | Package | Surface | Payload | Fields |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Found:
    """A key as it is written in a module."""

    key: str
    package: str
    kind: str
    name: str
    types: tuple[str, ...]
    options: frozenset[str]
    meaning: str
    """The string that stands below the assignment, in one line."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every source module with the import package it belongs to."""
    for pattern in SOURCES:
        for source in sorted(ROOT.glob(pattern)):
            for path in sorted(source.rglob("*.py")):
                package = path.relative_to(source).parts[0]
                yield package, ast.parse(path.read_text(encoding="utf-8"))


def keys(package: str, module: ast.Module) -> Iterator[Found]:
    """The event keys that `module` assigns."""
    for node, below in zip(module.body, [*module.body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name):
            found = _key(package, target.id, node.value, _text(below))
            if found is not None:
                yield found


def _text(node: ast.stmt | None) -> str:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    return " ".join(str(node.value.value).split())


def _key(package: str, key: str, value: ast.expr | None, meaning: str) -> Found | None:
    if not isinstance(value, ast.Call) or not value.args:
        return None
    name = value.args[0]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    function, types = value.func, ()
    if isinstance(function, ast.Subscript):
        inner = function.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        types = tuple(_type_text(part) for part in parts)
        function = function.value
    if not isinstance(function, ast.Name) or function.id not in (*MODES, *LOGGED):
        return None
    if function.id in LOGGED:
        types = (_type_text(value.args[1]),)
    options = frozenset(
        word.arg
        for word in value.keywords
        if word.arg and not (isinstance(word.value, ast.Constant) and word.value.value is False)
    )
    return Found(key, package, function.id, name.value, types, options, meaning)


def _type_text(node: ast.expr) -> str:
    text = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
    return str(text)


def fields(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Each class of `module` with its wire fields in one line."""
    for node in module.body:
        if not isinstance(node, ast.ClassDef):
            continue
        camel = any(
            word.arg == "rename" and getattr(word.value, "value", None) == "camel"
            for word in node.keywords
        )
        names = [
            _field_text(item, camel=camel)
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        yield node.name, ", ".join(names)


def _field_text(item: ast.AnnAssign, *, camel: bool) -> str:
    name = item.target.id if isinstance(item.target, ast.Name) else ""
    if camel:
        first, *rest = name.split("_")
        name = first + "".join(word.capitalize() for word in rest)
    kind = ast.unparse(item.annotation)
    optional = "UnsetType" in kind
    kind = kind.replace(" | UnsetType", "").replace("|", "\\|")
    return f"`{name}{'?' if optional else ''}`: {kind}"


def parts(key: Found) -> tuple[str, str, str]:
    """How an event that is not logged is dispatched, its payload and its result."""
    mode = "waterfall, sync" if key.kind == "SyncWaterfall" else key.kind.lower()
    if key.kind in ("Emit", "Parallel"):
        return mode, ", ".join(key.types), ""
    return mode, ", ".join(key.types[1:]), key.types[0]


def event_rows(found: Iterable[Found]) -> Iterator[str]:
    """The table of events."""
    for key in sorted(found, key=lambda item: item.name):
        if key.kind in LOGGED:
            continue
        mode, payload, result = parts(key)
        contained = "yes" if "contained" in key.options else ""
        scoped = "yes" if "scoped" in key.options else ""
        yield row(
            *(f"`{key.name}`", f"`{key.key}`", key.package, mode, payload, result),
            *(contained, scoped, key.meaning),
        )


def session_event_rows(found: Iterable[Found], classes: dict[str, str]) -> Iterator[str]:
    """The table of session events."""
    for key in sorted(found, key=lambda item: item.name):
        if key.kind in LOGGED:
            payload = key.types[0]
            yield row(
                f"`{key.name}`",
                f"`{key.key}`",
                key.package,
                "yes" if key.kind == "SurfaceEvent" else "",
                payload,
                classes.get(payload, ""),
                escaped=True,
            )


def row(*cells: str, escaped: bool = False) -> str:
    """One line of a table."""
    safe = cells if escaped else tuple(cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(safe)} |\n"


def catalogues() -> dict[Path, str]:
    """The text of each generated page."""
    found: list[Found] = []
    classes: dict[str, str] = {}
    for package, module in modules():
        found.extend(keys(package, module))
        classes.update(fields(module))
    return {
        ROOT / "docs/events.md": EVENTS_HEAD + "".join(event_rows(found)),
        ROOT / "docs/session-events.md": SESSION_EVENTS_HEAD
        + "".join(session_event_rows(found, classes)),
    }


def main() -> int:
    """Write or check the pages; 1 if a check finds one that is not current."""
    stale = [
        path
        for path, text in catalogues().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not current: run {sys.argv[0]}\n")
        return 1 if stale else 0
    for path, text in catalogues().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
