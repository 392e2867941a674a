"""Importing modules anew, with the way back."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dsh_cordis_loader import SourceLoader

from ._graph import Installation, imported_names

if TYPE_CHECKING:
    from importlib.abc import MetaPathFinder


class FreshFinder:
    """First on `sys.meta_path` while reloads are on: sources are compiled as they are now.

    Without it the bytecode cache could serve the code of an edit before the last one. Calls
    `found()` for each such import, from whatever thread it happens in.
    """

    def __init__(self, installation: Installation, found: Callable[[], None]) -> None:
        self._installation = installation
        self._found = found

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find, with a loader that reads the file if it is a source."""
        for finder in tuple(sys.meta_path):
            # The finder of another harness in this process would ask us in turn.
            if isinstance(finder, FreshFinder):
                continue
            spec = _find(finder, name, path, target)
            if spec is None:
                continue
            loader = spec.loader
            # Not a subclass: a loader that does more, such as rewriting assertions, keeps its work.
            if type(loader) is SourceFileLoader and self._installation.is_source(loader.path):
                spec.loader = SourceLoader(loader.name, loader.path)
                self._found()
            return spec
        return None

    def install(self) -> Callable[[], None]:
        """Begin; the result ends it."""
        finder: Any = self
        sys.meta_path.insert(0, finder)
        return lambda: sys.meta_path.remove(finder)


class FreshImport:
    """Takes modules out of `sys.modules`, to be imported again; `restore` puts them back."""

    def __init__(self, names: Collection[str], installation: Installation) -> None:
        self._installation = installation
        self._before = frozenset(sys.modules)
        self._old = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        self._attributes: list[tuple[ModuleType, str, object]] = []
        for name in self._old:
            parent, _, child = name.rpartition(".")
            package = sys.modules.get(parent)
            if package is not None and child in vars(package):
                # A package that stays gets the new module as its attribute.
                self._attributes.append((package, child, vars(package)[child]))
        # Directories are cached by a time stamp that two changes may share.
        importlib.invalidate_caches()

    def import_rest(self) -> None:
        """Import what the new modules import only later, so that its errors show now."""
        while wanted := self._wanted():
            for name in sorted(wanted):
                importlib.import_module(name)

    def restore(self) -> None:
        """Put the old modules back and forget what was imported instead and beside them."""
        for name, module in list(sys.modules.items()):
            replaced = name in self._old
            new = name not in self._before and self._is_source(module)
            if replaced or new:
                del sys.modules[name]
        sys.modules.update(self._old)
        for package, child, value in self._attributes:
            setattr(package, child, value)

    def _wanted(self) -> set[str]:
        named: set[str] = set()
        for name in self._old:
            module = sys.modules.get(name)
            loader = getattr(getattr(module, "__spec__", None), "loader", None)
            if module is not None and isinstance(loader, SourceLoader):
                named |= imported_names(loader.source, module)
        return {name for name in self._old if name not in sys.modules and name in named}

    def _is_source(self, module: object) -> bool:
        return isinstance(module, ModuleType) and self._installation.source_of(module) is not None


def where_it_failed(error: BaseException, files: Iterable[str]) -> str:
    """`file:line: ErrorType: message`, at the innermost place in one of `files` that is known."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, SyntaxError) and cause.filename is not None:
        return f"{cause.filename}:{cause.lineno}: {type(cause).__name__}: {cause.msg}"
    known = set(files)
    places = [
        f"{frame.filename}:{frame.lineno}: "
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename in known
    ]
    return f"{places[-1] if places else ''}{type(cause).__name__}: {cause}"


def _find(
    finder: MetaPathFinder | Any,  # noqa: ANN401 - old ones may lack the method
    name: str,
    path: Sequence[str] | None,
    target: ModuleType | None,
) -> ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    return None if find is None else find(name, path, target)
