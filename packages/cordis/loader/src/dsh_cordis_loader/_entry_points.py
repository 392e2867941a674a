"""Entry points of the `dsh.*` groups, read straight from the installed distributions.

`importlib.metadata` parses every distribution's metadata; this reads one small file each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
    location: str = ""
    """The path entry that holds the distribution."""

    @property
    def module(self) -> str:
        """The module part of `value`."""
        return self.value.partition(":")[0].strip()


class EntryPoints:
    """The entry points of an installation. A group is read with `points["dsh.plugins"]`."""

    __slots__ = ("_distributions", "_groups")

    def __init__(
        self,
        groups: Mapping[str, Mapping[str, EntryPoint]],
        distributions: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._groups = groups
        self._distributions = distributions

    def __getitem__(self, group: str) -> Mapping[str, EntryPoint]:
        """Name to entry point, sorted by name; empty for a group that nobody declares."""
        return self._groups.get(group, {})

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that somebody declares."""
        return tuple(self._groups)

    @property
    def distributions(self) -> Mapping[str, str]:
        """Normalised name to version of every distribution that was seen, declaring or not."""
        return self._distributions

    def extended(self, path_entries: Iterable[str]) -> EntryPoints:
        """These and those of path entries behind them; what is known already wins."""
        groups = {group: dict(names) for group, names in self._groups.items()}
        return _scanned(path_entries, groups, dict(self._distributions))


def scan_entry_points(path_entries: Iterable[str] | None = None) -> EntryPoints:
    """Entry points of groups that begin with `dsh.`, first on the path wins.

    `path_entries` defaults to `sys.path`. Entries that are no readable directory are skipped, as
    the interpreter skips them. A distribution that an earlier entry holds is ignored whole.
    """
    return _scanned(sys.path if path_entries is None else path_entries, {}, {})


def _scanned(
    path_entries: Iterable[str], groups: dict[str, dict[str, EntryPoint]], seen: dict[str, str]
) -> EntryPoints:
    for entry in dict.fromkeys(path_entries):
        here: dict[str, str] = {}
        for folder, distribution, version in _distributions(entry or "."):
            if distribution in seen:
                continue
            here.setdefault(distribution, version)
            _read(folder, EntryPoint("", "", distribution, version, entry), groups)
        seen |= here
    return EntryPoints(
        {group: dict(sorted(names.items())) for group, names in sorted(groups.items())}, seen
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


def _read(folder: str, owner: EntryPoint, groups: dict[str, dict[str, EntryPoint]]) -> None:
    try:
        with open(f"{folder}/entry_points.txt", encoding="utf-8") as stream:
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
            point = EntryPoint(
                name.strip(), value, owner.distribution, owner.version, owner.location
            )
            groups.setdefault(group, {}).setdefault(point.name, point)
