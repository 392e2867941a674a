"""Every strict read of a service is covered by what the plugin that makes it injects.

The sources are parsed, not run; imported names are resolved by importing what they come from. A
class is one unit with all its methods, a function with what is nested in it; a unit that names
another reaches it. What a plugin reaches has to be covered by that plugin's `inject`, by what it
provides itself, and by the `ctx.inject(keys, callback)` that leads there.
"""

from __future__ import annotations

import ast
import importlib
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Service, ServiceKey

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DYNAMIC = {"dsh_cordis._accessors": "mixins", "dsh_cordis_loader._scope": "expressions"}
"""Modules that read, for a plugin, the key that the plugin names."""


@dataclass
class Unit:
    """A function or class at the top of a module."""

    module: Source
    node: Any
    reads: list[tuple[int, Any, frozenset[Any]]] = field(default_factory=list)
    """Line, key (None if it cannot be told), what `ctx.inject` covers there."""
    reaches: list[tuple[Unit, frozenset[Any]]] = field(default_factory=list)
    provides: set[Any] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.node.name


class Source:
    """One file."""

    def __init__(self, path: Path, name: str, files: Files) -> None:
        self.path, self.name, self.files = path, name, files
        self.tree = ast.parse(path.read_text("utf-8"))
        self.units = {
            node.name: Unit(self, node)
            for node in self.tree.body
            if isinstance(node, (*FUNCTIONS, ast.ClassDef))
        }
        self.assigned = dict(assignments(self.tree.body))
        self.injects = dict(inject_attributes(self.tree.body))
        """What `function.inject = ...` says."""
        self.known: dict[str, Any] = {}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str | None]]:
        """Name to module and attribute, wherever in the file it is imported."""
        found: dict[str, tuple[str, str | None]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                found |= {one.asname or one.name: (source, one.name) for one in node.names}
            elif isinstance(node, ast.Import):
                found |= {one.asname or one.name: (one.name, None) for one in node.names}
        return found

    def resolve(self, node: ast.AST, owner: Unit | None = None) -> Any:
        """The key, unit or object that an expression stands for; None if that cannot be told."""
        if isinstance(node, ast.Name):
            return self.named(node.id, owner)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and owner:
                return member(owner, node.attr)
            of = self.resolve(node.value, owner)
            return member(of, node.attr) if isinstance(of, Unit) else getattr(of, node.attr, None)
        return made_key(node)

    def named(self, name: str, owner: Unit | None = None) -> Any:
        if name in self.units:
            return self.units[name]
        if name in self.assigned:
            return self.resolve(self.assigned[name], owner)
        if name not in self.known:
            source, attribute = self.imports.get(name, ("", None))
            self.known[name] = self.imported(source, attribute) if source else None
        return self.known[name]

    def imported(self, source: str, attribute: str | None) -> Any:
        beside = self.files.sources.get(f"{self.path.parent}/{source}")
        if beside is not None:
            return beside.named(attribute) if attribute else beside
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        try:
            module = importlib.import_module(source, package)
        except ModuleNotFoundError:  # an optional library
            return None
        value = getattr(module, attribute) if attribute else module
        place = (getattr(value, "__module__", None), getattr(value, "__qualname__", None))
        return self.files.places.get(place, value)


class Files:
    """The files that are looked at together; `scripts` are run, not imported."""

    def __init__(self, modules: Iterable[tuple[Path, str]], scripts: Iterable[Path] = ()) -> None:
        self.sources: dict[str, Source] = {}
        named = [Source(path, name, self) for path, name in modules]
        for path in scripts:
            self.sources[f"{path.parent}/{path.stem}"] = Source(path, path.stem, self)
        self.all = [*named, *self.sources.values()]
        self.places = {(s.name, unit.name): unit for s in named for unit in s.units.values()}
        self.units = [unit for source in self.all for unit in source.units.values()]
        for unit in self.units:
            Look(unit).unit_itself()

    def offenders(self) -> list[str]:
        """`file:line: plugin reads KEY without injecting it`, and reads that nobody can check."""
        found: dict[str, None] = {}
        reached: set[int] = set()
        for root, plugin, covered in self.plugins():
            for unit, inherited in closure(root):
                reached.add(id(unit))
                for line, key, extra in unit.reads:
                    if key is not None and key not in covered | inherited | extra:
                        where = f"{unit.module.path}:{line}"
                        found[f"{where}: {plugin} reads {key.name} without injecting it"] = None
        for unit in self.units:
            for line, key, extra in unit.reads:
                if key is None and unit.module.name in DYNAMIC:
                    continue
                if key is None:
                    found[f"{unit.module.path}:{line}: {unit.name} reads an unknown key"] = None
                elif id(unit) not in reached and key not in extra:
                    found[f"{unit.module.path}:{line}: no plugin reaches {unit.name}"] = None
        return list(found)

    def plugins(self) -> Iterator[tuple[Unit, str, set[Any]]]:
        """Where plugins begin: the unit, its name, what it may read."""
        for unit in self.units:
            if is_plugin(unit):
                name = "apply" if unit.name == "apply" else unit.name
                provided = {key for one, _ in closure(unit) for key in one.provides}
                yield unit, f"{unit.module.name}.{name}", injected(unit) | provided


class Look:
    """What one unit reads, names and provides."""

    def __init__(self, unit: Unit) -> None:
        self.unit, self.source = unit, unit.module
        self.covers: dict[str, frozenset[Any]] = {}
        """Nested function to what a `ctx.inject` or `inject` of its own gives it."""
        for name, value in inject_attributes(ast.walk(unit.node)):
            self.covers[name] = frozenset(self.keys(value))
        for node in ast.walk(unit.node):
            for keys, callback in self.mounts(node):
                if isinstance(callback, ast.Name):
                    self.covers[callback.id] = self.covers.get(callback.id, frozenset()) | keys

    def unit_itself(self) -> None:
        """A private method is covered by what covers every place in the class that names it."""
        self.method = ""
        self.named: dict[str, list[tuple[str, frozenset[Any]]]] = {}
        if not isinstance(self.unit.node, ast.ClassDef):
            self.body(self.unit.node)
            return
        methods = {one.name: one for one in self.unit.node.body if isinstance(one, FUNCTIONS)}
        for self.method, node in methods.items():
            self.body(node)
        private = {name for name in methods if name.startswith("_") and name in self.named}
        covers: dict[str, frozenset[Any] | None] = dict.fromkeys(private)
        for _ in methods:  # a chain of private methods is at most that long
            for name in private:
                found = [
                    extra | (covers.get(method, frozenset()) or frozenset())
                    for method, extra in self.named[name]
                    if covers.get(method, frozenset()) is not None
                ]
                covers[name] = frozenset.intersection(*found) if found else None
        self.unit.reads.clear()
        self.unit.reaches.clear()
        for node in self.unit.node.body:
            cover = covers.get(getattr(node, "name", "")) or frozenset()
            self.visit(node, cover)

    def mounts(self, node: ast.AST) -> Iterator[tuple[frozenset[Any], ast.AST]]:
        """The keys and the callback of `ctx.inject(keys, callback)`, `ctx.plugin(..., inject=)`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        if node.func.attr == "inject" and len(node.args) == 2:
            yield frozenset(self.keys(node.args[0])), node.args[1]
        if node.func.attr == "plugin" and node.args:
            for keyword in node.keywords:
                if keyword.arg == "inject":
                    yield frozenset(self.keys(keyword.value)), node.args[0]

    def keys(self, value: ast.AST) -> set[Any]:
        return keys_in(self.source, value, self.unit)

    def body(self, node: ast.AST, extra: frozenset[Any] = frozenset()) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):  # naming a type reaches nothing
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child, extra)

    def visit(self, node: ast.AST, extra: frozenset[Any]) -> None:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            self.subscript(node, extra)
        if isinstance(node, ast.Call):
            self.call(node, extra)
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            self.named.setdefault(node.attr, []).append((self.method, extra))
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            reached = self.source.resolve(node, self.unit)
            if isinstance(reached, Unit) and reached is not self.unit:
                covered = self.covers.get(getattr(node, "id", ""), frozenset())
                self.unit.reaches.append((reached, extra | covered))
        if isinstance(node, FUNCTIONS) and node is not self.unit.node:
            extra |= self.covers.get(node.name, frozenset())
        for keys, callback in self.mounts(node):
            if not isinstance(callback, ast.Name):
                self.visit(callback, extra | keys)
                rest = [one for one in ast.iter_child_nodes(node) if one is not callback]
                for one in rest:
                    self.visit(one, extra)
                return
        self.body(node, extra)

    def subscript(self, node: ast.Subscript, extra: frozenset[Any]) -> None:
        key = self.source.resolve(node.slice, self.unit)
        if isinstance(key, ServiceKey):
            if not is_root(node.value):
                self.unit.reads.append((node.lineno, key, extra))
        elif is_context(node.value) and not isinstance(node.slice, ast.Constant):
            self.unit.reads.append((node.lineno, None, extra))

    def call(self, node: ast.Call, extra: frozenset[Any]) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "provide" and node.args:
            key = self.source.resolve(node.args[0], self.unit)
            if isinstance(key, ServiceKey):
                self.unit.provides.add(key)


def assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.Assign):
            yield from ((one.id, node.value) for one in node.targets if isinstance(one, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


def inject_attributes(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """`function.inject = keys`."""
    for node in nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        name = getattr(target, "value", None)
        if getattr(target, "attr", "") == "inject" and isinstance(name, ast.Name):
            yield name.id, node.value


def made_key(node: ast.AST) -> Any:
    """The key that `ServiceKey["X"]("name")` makes; keys are one object per name."""
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        maker = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        if isinstance(maker, ast.Name) and maker.id == "ServiceKey":
            return ServiceKey(node.args[0].value)
    return None


def keys_in(source: Source, value: ast.AST, owner: Unit | None) -> set[Any]:
    """Every service key that an expression names, also as `Other.inject`."""
    found: set[Any] = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and node.attr == "inject":
            of = source.resolve(node.value, owner)
            found |= injected(of) if isinstance(of, Unit) else set(getattr(of, "inject", ()))
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            key = source.resolve(node, owner)
            found |= {key} if isinstance(key, ServiceKey) else set()
    return found


def member(unit: Unit, name: str) -> Any:
    """What a class says of `name`, itself or by its bases."""
    for one in lineage(unit):
        if not isinstance(one, Unit):
            return getattr(one, name, None)
        value = dict(assignments(one.node.body)).get(name)
        if value is not None:
            return one.module.resolve(value, one)
    return None


def lineage(unit: Unit) -> Iterator[Any]:
    """A class and its bases: units of the tree, classes otherwise."""
    yield unit
    for base in getattr(unit.node, "bases", ()):
        base = base.value if isinstance(base, ast.Subscript) else base
        of = unit.module.resolve(base, unit)
        if isinstance(of, Unit):
            yield from lineage(of)
        elif isinstance(of, type):
            yield of


def is_plugin(unit: Unit) -> bool:
    if isinstance(unit.node, ast.ClassDef):
        methods = [one.name for one in unit.node.body if isinstance(one, FUNCTIONS)]
        return "apply" in methods or any(map(is_service, list(lineage(unit))[1:]))
    return unit.name == "apply" or unit.name in unit.module.injects


def is_service(base: Any) -> bool:
    if isinstance(base, Unit):
        return (base.module.name, base.name) == (Service.__module__, Service.__name__)
    return issubclass(base, Service)


def injected(unit: Unit) -> set[Any]:
    """What a plugin injects and provides, by its attributes."""
    if not isinstance(unit.node, ast.ClassDef):
        of = unit.module.injects.get(unit.name)
        if of is None and unit.name == "apply":
            of = unit.module.assigned.get("inject")
        return keys_in(unit.module, of, None) if of is not None else set()
    provided = member(unit, "provides")
    found = {provided} if isinstance(provided, ServiceKey) else set()
    for one in lineage(unit):
        if not isinstance(one, Unit):
            return found | set(getattr(one, "inject", ()))
        own = dict(assignments(one.node.body)).get("inject")
        if own is not None:
            return found | keys_in(one.module, own, one)
    return found


def closure(root: Unit) -> Iterator[tuple[Unit, frozenset[Any]]]:
    """What a plugin runs: itself, its bases and what they reach, but no other plugin."""
    bases = [one for one in lineage(root) if isinstance(one, Unit)]
    waiting: list[tuple[Unit, frozenset[Any]]] = [(one, frozenset()) for one in bases]
    seen: set[tuple[int, frozenset[Any]]] = set()
    while waiting:
        unit, extra = waiting.pop()
        if (id(unit), extra) in seen:
            continue
        seen.add((id(unit), extra))
        yield unit, extra
        for reached, more in unit.reaches:
            if not is_plugin(reached):
                waiting.append((reached, extra | more))


def is_context(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_") in {"ctx", "own"} or node.attr.endswith("_ctx")
    return isinstance(node, ast.Name) and (node.id == "ctx" or node.id.endswith("_ctx"))


def is_root(node: ast.expr) -> bool:
    """The root may read all there is."""
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "root"


@pytest.fixture(scope="module")
def files(members: list[Any], root: Path) -> Iterator[Files]:
    sources = [member.source.parent for member in members]
    examples = [path for path in (root / "examples").glob("*/src") if path.is_dir()]
    named = [
        (path, ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"))
        for source in [*sources, *examples]
        for path in sorted(source.rglob("*.py"))
    ]
    scripts = [
        path
        for path in sorted((root / "examples").rglob("*.py"))
        if not any(path.is_relative_to(one) for one in examples)
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    with pytest.MonkeyPatch.context() as patch:
        for one in examples:  # packages that are not installed here
            patch.syspath_prepend(str(one))
        yield Files(named, scripts)


def test_each_plugin_injects_what_it_reads(files: Files) -> None:
    assert files.offenders() == []


def test_the_reads_of_the_product_are_found(files: Files) -> None:
    reads = [
        (unit.module.name, key.name) for unit in files.units for _, key, _ in unit.reads if key
    ]
    assert len(reads) > 40
    assert {"tools", "sessions", "agents", "llm", "fs", "system_prompt"} <= {
        key for _, key in reads
    }
    names = {plugin for _, plugin, _ in files.plugins()}
    assert {"dsh_tool_fs._plugin.apply", "dsh_agent_loop._service.AgentLoop"} <= names


SEEDED = """
from __future__ import annotations

from dsh_cordis import Context, Service, ServiceKey
from helper import borrow, harmless

ONE = ServiceKey["One"]("one")
TWO = ServiceKey["Two"]("two")
THREE = ServiceKey["Three"]("three")


class Base(Service):
    inject = (ONE,)

    def use(self):
        return self.ctx[ONE]  # Gone


class Good(Base):
    inject = {**dict.fromkeys(Base.inject, {}), TWO: {}}

    def start(self):
        self.own.inject((THREE,), lambda ctx: self._later(ctx))
        return self.own[TWO]

    def _later(self, ctx):
        self._last(ctx)

    def _last(self, ctx):
        ctx[THREE]


class Gone(Base):
    provides = TWO
    inject = ()

    def start(self):
        self.own[TWO]
        self._both(self.own)
        self.own.inject((THREE,), self._both)
        return harmless(self)

    def _both(self, ctx):
        ctx[THREE]  # Gone


def waits(ctx, config):
    def child(inner):
        inner.ctx[TWO]

    def other(ctx, config):
        ctx[TWO]

    ctx.inject((TWO,), child)
    ctx.inject([TWO], lambda ctx: borrow(ctx))
    ctx.plugin(other, inject=(TWO,))
    ctx[TWO]  # waits
    ctx[ONE]
    borrow(ctx)


waits.inject = (ONE,)


def lonely(ctx):
    return ctx[ONE]  # lonely


def main(root: Context):
    root[ONE]
    root.plugin(Gone)
"""
HELPER = """
from seeded import TWO


def borrow(ctx):
    return ctx[TWO]  # waits


def harmless(anything):
    return anything


def apply(ctx, config):
    from seeded import ONE

    return ctx[ONE]  # apply


def dynamic(ctx, key):
    return ctx[key]  # unknown
"""


def test_a_seeded_mistake_is_found_where_it_stands(tmp_path: Path) -> None:
    for name, text in {"seeded": SEEDED, "helper": HELPER}.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    paths = [tmp_path / "seeded.py", tmp_path / "helper.py"]
    marked = {
        f"{path}:{line}": text.partition("# ")[2]
        for path in paths
        for line, text in enumerate(path.read_text().splitlines(), 1)
        if "# " in text
    }
    found = {":".join(one.split(":")[:2]): one for one in Files((), paths).offenders()}
    assert set(found) == set(marked)
    assert all(marked[place] in one for place, one in found.items())
    assert f"{paths[0]}:16: seeded.Gone reads one without injecting it" in found.values()
