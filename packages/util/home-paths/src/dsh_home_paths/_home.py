"""The harness home and paths below it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dsh_cordis import ServiceKey


def resolve_dsh_home(
    configured: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None
) -> Path:
    """The absolute harness home: `configured`, else `$DSH_HOME`, else `~/.dsh`.

    Blank text counts as not set, a leading `~` is expanded, the directory need not exist. `env` is
    the process's environment when None. Raises `RuntimeError` if a home directory is needed and
    the system knows none.
    """
    variables = os.environ if env is None else env
    for candidate in (os.fspath(configured or ""), variables.get("DSH_HOME", "")):
        if candidate.strip():
            return _absolute(expand_home_path(candidate, variables))
    return _absolute(expand_home_path("~/.dsh", variables))


def expand_home_path(path: str, env: Mapping[str, str] | None = None) -> Path:
    """`path` with a leading `~` alone, `~/` or `~\\` replaced by the user's home directory.

    Other spellings, `~user` among them, stay as they are.
    """
    if path == "~" or path.startswith(("~/", "~\\")):
        return Path(_user_home(os.environ if env is None else env), path[2:])
    return Path(path)


def dsh_home_display(home: Path, env: Mapping[str, str] | None = None) -> str:
    """How to call `home` in text that a model or a stranger may read; never an absolute path.

    `~/.dsh` for the default home, `$DSH_HOME` for any other.
    """
    variables = os.environ if env is None else env
    return "~/.dsh" if home == _absolute(expand_home_path("~/.dsh", variables)) else "$DSH_HOME"


class HomePath:
    """Paths in the harness home: `home_path("sessions", "x")`. `home` is the directory itself."""

    __slots__ = ("home",)
    home: Path

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *parts: str) -> Path:
        """The path of `parts` below the home. Raises `ValueError` for an absolute part."""
        for part in parts:
            if Path(part).is_absolute():
                raise ValueError(f"{part!r} is absolute; give parts below the harness home")
        return self.home.joinpath(*parts)

    def __repr__(self) -> str:
        return f"HomePath({str(self.home)!r})"


HOME_PATH: Final = ServiceKey[HomePath]("dsh_home_path")
"""The home that this harness was booted with."""


def _user_home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME", "")
    return Path(home) if home else Path.home()


def _absolute(path: Path) -> Path:
    # Not resolve(), since a home behind a symbolic link keeps the name that its owner gave it, and
    # not absolute(), which keeps `..`.
    return Path(os.path.abspath(path))
