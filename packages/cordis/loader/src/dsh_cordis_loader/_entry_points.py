"""Entry points of the `dsh.*` groups, read straight from the installed distributions.

`importlib.metadata` parses every distribution's metadata; this reads one small file each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

_PREFIX: Final = "dsh."
_SUFFIX: Final = ".dist-info"


class EntryPoint(msgspec.Struct, frozen=True):
    """One declared object: `value` is `module:attr` or `module`."""

    name: str
    value: str
    distribution: str
    """Normalised name of the distribution that declares it, like `dsh-base`."""
    version: str

    @property
    def module(self) -> str:
        """The module part of `value`."""
        return self.value.partition(":")[0].strip()


class EntryPoints:
    """The entry points of an installation. A group is read with `points["dsh.plugins"]`."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Mapping[str, Mapping[str, EntryPoint]]) -> None:
        self._groups = groups

    def __getitem__(self, group: str) -> Mapping[str, EntryPoint]:
        """Name to entry point, sorted by name; empty for a group that nobody declares."""
        return self._groups.get(group, {})

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that somebody declares."""
        return tuple(self._groups)


def scan_entry_points(path_entries: Iterable[str] | None = None) -> EntryPoints:
    """Entry points of groups that begin with `dsh.`, first on the path wins.

    `path_entries` defaults to `sys.path`. Entries that are no readable directory are skipped, as
    the interpreter skips them. A distribution that an earlier entry holds is ignored whole.
    """
    groups: dict[str, dict[str, EntryPoint]] = {}
    seen: set[str] = set()
    for entry in dict.fromkeys(sys.path if path_entries is None else path_entries):
        here: set[str] = set()
        for folder, distribution, version in _distributions(entry or "."):
            if distribution in seen:
                continue
            here.add(distribution)
            _read(f"{folder}/entry_points.txt", distribution, version, groups)
        seen |= here
    return EntryPoints(
        {group: dict(sorted(names.items())) for group, names in sorted(groups.items())}
    )


def _distributions(directory: str) -> list[tuple[str, str, str]]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found: list[tuple[str, str, str]] = []
    for name in sorted(names):
        if name.endswith(_SUFFIX):
            distribution, _, version = name.removesuffix(_SUFFIX).partition("-")
            normal = distribution.replace("_", "-").replace(".", "-").lower()
            found.append((f"{directory}/{name}", normal, version))
    return found


def _read(
    file: str, distribution: str, version: str, groups: dict[str, dict[str, EntryPoint]]
) -> None:
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError):
        return
    if _PREFIX not in text:
        return
    group: str | None = None
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]").strip()
            group = section if section.startswith(_PREFIX) else None
        elif group is not None and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            # Extras in brackets say what to install, not what to import.
            value = value.partition("[")[0].strip()
            point = EntryPoint(name.strip(), value, distribution, version)
            groups.setdefault(group, {}).setdefault(point.name, point)
