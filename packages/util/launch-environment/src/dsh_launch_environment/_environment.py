"""The environment as an immutable value that knows where each variable came from."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from dsh_cordis import ServiceKey

if TYPE_CHECKING:
    from dsh_cordis import Context

EnvironmentSource: TypeAlias = Literal["process", "project-env", "user-env"]
"""The process that launched the harness, `.env` in its working directory, `.env` in its home."""


@dataclass(frozen=True, slots=True)
class EnvironmentValue:
    """One variable. `path` is the file that set it, None for the launching process."""

    value: str = field(repr=False)
    source: EnvironmentSource
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """The variables of one `.env` file."""

    path: Path
    variables: Mapping[str, str] = field(repr=False)


class LaunchEnvironment:
    """What the harness was launched with: process over project file over user file.

    A variable that is set to nothing counts as set. Values never appear in `repr`.
    """

    __slots__ = ("_merged", "_values")

    def __init__(
        self,
        process: Mapping[str, str],
        *,
        project: EnvironmentFile | None = None,
        user: EnvironmentFile | None = None,
    ) -> None:
        layers: list[tuple[EnvironmentSource, Mapping[str, str], Path | None]] = [
            ("process", dict(process), None)
        ]
        if project is not None:
            layers.append(("project-env", dict(project.variables), project.path))
        if user is not None:
            layers.append(("user-env", dict(user.variables), user.path))
        self._values = tuple(layers)
        merged: dict[str, str] = {}
        for _, variables, _ in reversed(layers):
            merged.update(variables)
        self._merged = MappingProxyType(merged)

    @property
    def merged(self) -> Mapping[str, str]:
        """Every variable by name, as a child process would see it. Read-only."""
        return self._merged

    def get(self, name: str) -> str | None:
        """The value of `name`, or None if nothing set it."""
        return self._merged.get(name)

    def get_from(
        self, name: str, sources: Collection[EnvironmentSource]
    ) -> EnvironmentValue | None:
        """The value of `name` with its origin, looking at `sources` only, in the usual order."""
        for source, variables, path in self._values:
            if source in sources and name in variables:
                return EnvironmentValue(variables[name], source, path)
        return None

    def __repr__(self) -> str:
        layers = ", ".join(f"{source}: {len(names)}" for source, names, _ in self._values)
        return f"LaunchEnvironment({layers})"


LAUNCH_ENVIRONMENT: Final = ServiceKey[LaunchEnvironment]("launch_environment")
"""The environment that this harness was launched with."""


def launch_environment_of(ctx: Context) -> LaunchEnvironment:
    """The environment that the launcher provided, else that of this process, taken now."""
    return ctx.get(LAUNCH_ENVIRONMENT) or LaunchEnvironment(os.environ)
