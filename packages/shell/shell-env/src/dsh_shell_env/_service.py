"""A registry of variables: each has one owner, and its value is asked anew for each command."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

import msgspec
from dsh_cordis import Context, CordisError, Disposer, Service, ServiceKey
from dsh_home_paths import HOME_PATH, resolve_dsh_home
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_system_prompt import AgentRef
from msgspec import Meta

SHELL_ENV = ServiceKey["ShellEnv"]("shell_env")

_NAME: Final = re.compile(r"DSH_[A-Z][A-Z0-9_]*")
_OWN: Final = frozenset({"DSH_HOME", "DSH_SHELL", "DSH_SESSION_ID", "DSH_SESSION_JSONL"})

Resolve: TypeAlias = Callable[[AgentRef | None], Mapping[str, str]]


class ShellEnvError(CordisError):
    """A contribution is wrong. Codes: `INVALID_VARIABLE`, `DUPLICATE_VARIABLE`."""


class ShellEnvConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the harness home is."""

    dsh_home: Annotated[
        str,
        Meta(
            description="Value of `DSH_HOME`. Empty: the home that the harness was booted with,"
            " else `$DSH_HOME`, else `~/.dsh`."
        ),
    ] = ""


class VariableInfo(msgspec.Struct, frozen=True):
    """A variable that a plugin contributes."""

    name: str
    description: str
    """What the value is, for the model and for people."""


class _Contribution(msgspec.Struct, frozen=True):
    owner: str
    variables: tuple[VariableInfo, ...]
    resolve: Resolve


class ShellEnv(Service):
    """Collects the variables of one command. The environment of this process never changes."""

    provides = SHELL_ENV
    Config = ShellEnvConfig
    name = "dsh-shell-env"

    def __init__(self, ctx: Context, config: ShellEnvConfig) -> None:
        super().__init__(ctx, config)
        booted = None if config.dsh_home else ctx.get(HOME_PATH)
        self._home = str(resolve_dsh_home(config.dsh_home) if booted is None else booted.home)
        self._contributions: dict[str, _Contribution] = {}

    def register(self, owner: str, variables: Mapping[str, str], *, resolve: Resolve) -> Disposer:
        """Contribute `variables` (name to description) with the values that `resolve` gives.

        `resolve` may leave out variables that have no value for an agent. Raises `ShellEnvError`.
        """
        contribution = _Contribution(
            owner,
            tuple(VariableInfo(name, text) for name, text in variables.items()),
            resolve,
        )
        self._check(contribution)

        def add() -> Disposer:
            self._contributions[owner] = contribution
            return lambda: self._remove(contribution)

        return self.ctx.effect(add, f"shell_env.register({owner!r})")

    def collect(self, agent: AgentRef | None) -> Mapping[str, str]:
        """The variables of a command that `agent` runs, sorted by name."""
        values = {"DSH_HOME": self._home, "DSH_SHELL": "1"}
        if agent is not None:
            values |= self._of_session(agent)
        for contribution in self._contributions.values():
            values |= _resolved(contribution, agent)
        return MappingProxyType(dict(sorted(values.items())))

    def list(self) -> tuple[VariableInfo, ...]:
        """The contributed variables, in the order of their registration."""
        return tuple(info for entry in self._contributions.values() for info in entry.variables)

    def _of_session(self, agent: AgentRef) -> dict[str, str]:
        values: dict[str, str] = {"DSH_SESSION_ID": agent.session.id}
        persistence = self.own.get(SESSION_PERSISTENCE)
        location = persistence.locate(agent.session.header) if persistence else None
        if location is not None and ".jsonl" in os.path.basename(location.path):
            values["DSH_SESSION_JSONL"] = location.path
        return values

    def _check(self, new: _Contribution) -> None:
        if not new.owner.strip() or new.owner in self._contributions:
            raise ShellEnvError(
                f"contributor {new.owner!r} is blank or registered already",
                code="DUPLICATE_VARIABLE",
            )
        owned = {
            info.name: entry.owner
            for entry in self._contributions.values()
            for info in entry.variables
        }
        for info in new.variables:
            if info.name in _OWN or info.name in owned:
                holder = owned.get(info.name, "the harness")
                raise ShellEnvError(
                    f"{info.name} belongs to {holder}; choose another name",
                    code="DUPLICATE_VARIABLE",
                )
            if not _NAME.fullmatch(info.name) or not info.description.strip():
                raise ShellEnvError(
                    f"{info.name!r} must look like DSH_NAME and have a description",
                    code="INVALID_VARIABLE",
                )

    def _remove(self, contribution: _Contribution) -> None:
        if self._contributions.get(contribution.owner) is contribution:
            del self._contributions[contribution.owner]


def _resolved(contribution: _Contribution, agent: AgentRef | None) -> dict[str, str]:
    declared = {info.name for info in contribution.variables}
    values = dict(contribution.resolve(agent))
    for name, value in values.items():
        if name not in declared or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - plugin code
            raise ShellEnvError(
                f"contributor {contribution.owner!r} gave {name!r}, "
                "which it did not declare or which is no text",
                code="INVALID_VARIABLE",
            )
    return values
