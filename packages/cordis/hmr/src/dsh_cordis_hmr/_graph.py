"""Which loaded modules stand on which, by what their sources import."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Final

from dsh_cordis_loader import SourceLoader

from ._state import Watched, digest, stamp_of

_PACKAGE_FOLDERS: Final = ("site-packages", "dist-packages")


class Installation:
    """Tells installed code, which nobody edits, from sources."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        self._standard = tuple(f"{paths[name]}{os.sep}" for name in ("stdlib", "platstdlib"))
        self._holds: dict[str, bool] = {}

    def source_of(self, module: ModuleType) -> str | None:
        """The file of a module that can be reloaded; None for all others."""
        if module.__name__ == "__main__":
            return None
        file = getattr(module, "__file__", None)
        # A test may hold anything in sys.modules.
        return file if isinstance(file, str) and self.is_source(file) else None

    def is_source(self, file: str) -> bool:
        """Whether this is Python source outside of the standard library and what is installed."""
        if not file.endswith(".py") or file.startswith(self._standard):
            return False
        if any(folder in file.split(os.sep) for folder in _PACKAGE_FOLDERS):
            return False
        return not any(
            file.startswith(f"{path}{os.sep}") for path in sys.path if self._is_site(path)
        )

    def _is_site(self, path: str) -> bool:
        """Whether distributions were installed into this directory of the path."""
        holds = self._holds.get(path)
        if holds is None:
            try:
                holds = any(name.endswith(".dist-info") for name in os.listdir(path or "."))
            except OSError:
                holds = False
            self._holds[path] = holds
        return holds and bool(path)


class Source:
    """A loaded module whose file can be edited."""

    __slots__ = ("file", "imports", "loaded", "module", "name")

    def __init__(self, name: str, module: ModuleType, file: str, *, began_ns: int) -> None:
        self.name = name
        self.module = module
        loader = getattr(module.__spec__, "loader", None)
        data = loader.source if isinstance(loader, SourceLoader) else None
        self.file = Watched(file, digest=digest(data) if data is not None else None)
        self.loaded = self.file.digest
        """The content that runs; of a file written after the start that is not known."""
        if data is None and _written_after(file, began_ns):
            self.loaded = b""
        self.imports = imported_names(data if data is not None else _read(file), module)


class ImportGraph:
    """The sources below some modules, learned from `sys.modules` as it is."""

    def __init__(self, installation: Installation, *, began_ns: int) -> None:
        self._began_ns = began_ns
        self.sources: dict[str, Source] = {}
        """Every source that was ever seen and is still loaded, by module name."""
        self._installation = installation

    async def learn(self, roots: Iterable[str]) -> None:
        """Add what is loaded of these modules and of all that they import."""
        self._forget_replaced()
        seen: set[str] = set()
        waiting = [*roots]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            source = self.sources.get(name)
            if source is None:
                source = self._add(name)
                if source is None:
                    continue
                # Reading a whole program at once would hold up everything else.
                await asyncio.sleep(0)
            waiting.extend(self.needs(source))

    def needs(self, source: Source) -> set[str]:
        """The loaded modules that it imports, and the packages that they and it lie in."""
        found: set[str] = set()
        for name in (source.name.rpartition(".")[0], *source.imports):
            # With the packages on the way: an import runs them first.
            while name and name not in found:
                if name in sys.modules:
                    found.add(name)
                name = name.rpartition(".")[0]
        return found

    def closure(self, roots: Iterable[str]) -> set[str]:
        """The sources that these modules consist of, themselves included."""
        seen: set[str] = set()
        waiting = [*roots]
        while waiting:
            name = waiting.pop()
            source = self.sources.get(name)
            if source is not None and name not in seen:
                seen.add(name)
                waiting.extend(self.needs(source))
        return seen

    def dependents(self, changed: Collection[str]) -> set[str]:
        """The sources that stand on one of these, themselves included."""
        users: dict[str, set[str]] = {}
        for source in self.sources.values():
            for name in self.needs(source):
                users.setdefault(name, set()).add(source.name)
        seen: set[str] = set()
        waiting = [*changed]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(users.get(name, ()))
        return seen & self.sources.keys()

    def changed(self, events: Collection[str] = ()) -> dict[str, bytes]:
        """The sources whose file holds something else than what runs, with what it holds."""
        for source in self.sources.values():
            source.file.look(events)
        return {
            name: source.file.digest
            for name, source in self.sources.items()
            if source.file.digest != source.loaded
        }

    def _add(self, name: str) -> Source | None:
        module = sys.modules.get(name)
        if not isinstance(module, ModuleType):
            return None
        file = self._installation.source_of(module)
        if file is None:
            return None
        source = self.sources[name] = Source(name, module, file, began_ns=self._began_ns)
        return source

    def _forget_replaced(self) -> None:
        gone = [n for n, source in self.sources.items() if sys.modules.get(n) is not source.module]
        for name in gone:
            del self.sources[name]


def imported_names(data: bytes, module: ModuleType) -> frozenset[str]:
    """The absolute names that a module's source imports anywhere, also those that are no modules.

    Imports for type checkers only do not count. A source that does not parse imports nothing.
    """
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return frozenset()
    package = _package_of(module)
    found: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            if base:
                found.add(base)
                found.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            found.update(_called_for(node, package))
        if isinstance(node, ast.If) and _for_type_checkers(node.test):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def _called_for(call: ast.Call, package: str) -> Iterable[str]:
    """The module of `import_module("name")`, however the function is reached."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name in ("import_module", "__import__") and call.args:
        target = call.args[0]
        if isinstance(target, ast.Constant) and isinstance(target.value, str):
            absolute = _absolute(target.value, package)
            if absolute:
                yield absolute


def _for_type_checkers(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def _absolute(name: str, package: str) -> str:
    if not name.startswith("."):
        return name
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        return ""


def _package_of(module: ModuleType) -> str:
    spec = module.__spec__
    if spec is not None and spec.parent is not None:
        return spec.parent
    return module.__name__.rpartition(".")[0]


def _written_after(file: str, moment_ns: int) -> bool:
    stamp = stamp_of(file)
    return stamp is not None and stamp[0] > moment_ns


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as source:
            return source.read()
    except OSError:
        return b""
