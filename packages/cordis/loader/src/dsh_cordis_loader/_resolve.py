"""From a row's name to a plugin object."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ._errors import LoaderError
from ._source import SourceLoader

if TYPE_CHECKING:
    from types import ModuleType

    from ._entry_points import EntryPoints

PLUGIN_GROUP: Final = "dsh.plugins"
BUILTIN_PREFIX: Final = "cordis:"


def resolve_plugin(
    name: str, *, entry_points: EntryPoints, builtins: Mapping[str, object]
) -> object:
    """The plugin that `name` stands for, imported.

    A builtin `cordis:x`; an absolute path of a Python file, with `:attr` or whole; an entry point
    of group `dsh.plugins`; `module:attr`. Raises LoaderError (`UNKNOWN_PLUGIN`) for a name that
    nothing installed has, and whatever the plugin's own import raises.
    """
    return locate_plugin(name, entry_points=entry_points, builtins=builtins)[0]


def locate_plugin(
    name: str, *, entry_points: EntryPoints, builtins: Mapping[str, object]
) -> tuple[object, str | None]:
    """The same with the name of the module that it came from; None for a builtin."""
    if name.startswith(BUILTIN_PREFIX):
        builtin = builtins.get(name.removeprefix(BUILTIN_PREFIX))
        if builtin is None:
            known = ", ".join(f"{BUILTIN_PREFIX}{one}" for one in sorted(builtins)) or "none"
            raise LoaderError(f"no builtin {name!r}; there is {known}", code="UNKNOWN_PLUGIN")
        return builtin, None
    if name.startswith(("/", "./", "../")) or _drive(name):
        return _from_file(name)
    points = entry_points[PLUGIN_GROUP]
    point = points.get(name)
    target = name if point is None else point.value
    module, colon, attribute = target.partition(":")
    if point is None and not (colon and module and attribute):
        raise _unknown(name, list(points))
    imported = _import(module, name)
    return (_attribute(imported, attribute, name) if colon else imported), imported.__name__


def _import(module: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module == missing or module.startswith(f"{missing}."):
            raise LoaderError(
                f"{name!r}: there is no module {missing!r}; install its distribution or correct"
                " the name",
                code="UNKNOWN_PLUGIN",
            ) from None
        raise


def _from_file(name: str) -> tuple[object, str]:
    path, attribute = name, ""
    if not path.endswith(".py"):
        path, _, attribute = name.rpartition(":")
    file = Path(path)
    if not file.is_absolute():
        raise LoaderError(
            f"{name!r} is relative and the row comes from no file; give an absolute path",
            code="UNKNOWN_PLUGIN",
        )
    if not path.endswith(".py") or not file.is_file():
        raise LoaderError(f"there is no Python file {path or name}", code="UNKNOWN_PLUGIN")
    # One module per path, whatever its stem: two plugins may both be called `hello.py`.
    module_name = f"dsh_file_{zlib.crc32(path.encode()):08x}_{file.stem}"
    module = sys.modules.get(module_name)
    if module is None:
        module = _load(module_name, file)
    return (_attribute(module, attribute, name) if attribute else module), module_name


def _load(module_name: str, file: Path) -> ModuleType:
    loader = SourceLoader(module_name, str(file))
    spec = importlib.util.spec_from_file_location(module_name, file, loader=loader)
    if spec is None or spec.loader is None:
        raise LoaderError(f"{file} cannot be imported", code="UNKNOWN_PLUGIN")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # A later attempt runs the file again instead of finding half a module.
        del sys.modules[module_name]
        raise
    return module


def _attribute(module: ModuleType, path: str, name: str) -> object:
    value: object = module
    for part in path.strip().split("."):
        if not hasattr(value, part):
            import difflib  # only a mistake pays for it

            near = difflib.get_close_matches(part, [n for n in dir(value) if n[0] != "_"], n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise LoaderError(
                f"{name!r}: {module.__name__} has no {part!r}{hint}", code="UNKNOWN_PLUGIN"
            )
        value = getattr(value, part)
    return value


def _unknown(name: str, installed: list[str]) -> LoaderError:
    import difflib  # only a mistake pays for it

    near = difflib.get_close_matches(name, installed, n=3, cutoff=0.5)
    if near:
        hint = f"installed are {', '.join(near)}"
    elif installed:
        hint = f"none of the {len(installed)} installed plugins is called like it"
    else:
        hint = "no plugin is installed in this environment"
    return LoaderError(
        f"no plugin {name!r}: {hint}; install its distribution or correct the name",
        code="UNKNOWN_PLUGIN",
    )


def _drive(name: str) -> bool:
    return len(name) > 2 and name[1] == ":" and name[2] in "/\\"
