"""The installer: uv resolves and unpacks; what it says is passed on without secrets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from dsh_subprocess import scrubbed_parent_env

from ._plugin_errors import PluginError
from ._plugin_specs import masked, normal_name

_NOT_FOUND: Final = 127
_PLANNED: Final = re.compile(r"^ \+ ([A-Za-z0-9._-]+)(?:==(\S+)(?: \(from (.+)\))?| @ (.+))$", re.M)
_NEEDS: Final = re.compile(
    r"([\w.-]+(?:\[[^\]]*\])?(?:==[^\s,]+)?) depends on"
    r" ([\w.-]+)(?:\[[^\]]*\])?([<>=!~][^\s,]*(?:,[<>=!~][^\s,]*)*)"
)
_WANTS: Final = re.compile(r"you require ([\w.-]+)([<>=!~][^\s,]*(?:,[<>=!~][^\s,]*)*)")
_WRAPPED: Final = re.compile(r"\s*\n[\s\u2500-\u257f\u25b6]*")
"""Older versions of uv break lines, and draw beside them."""
_CHATTER: Final = re.compile(r"^(?:Using Python .*|Resolved \d+ packages? in .*)\n", re.M)
_ELSEWHERE: Final = ("UV_PYTHON", "UV_SYSTEM_PYTHON", "VIRTUAL_ENV")
"""Variables that name another Python than the running one."""


class Planned(NamedTuple):
    """One distribution that the running installation lacks."""

    name: str
    """Normalised."""
    requirement: str
    """Exactly this one, as the installer takes it."""
    url: str | None


class Uv:
    """The program `uv`, run in a profile's directory for the running Python."""

    def __init__(self, environ: Mapping[str, str], directory: Path) -> None:
        self._program = _find(environ)
        self._directory = directory
        own = {name: value for name, value in environ.items() if name.startswith("UV_")}
        self._environ = {**scrubbed_parent_env(environ), **own, "NO_COLOR": "1"}
        for name in _ELSEWHERE:
            self._environ.pop(name, None)

    def plan(
        self, requirements: Sequence[str], fixed: Mapping[str, str], preferred: Mapping[str, str]
    ) -> tuple[Planned, ...]:
        """What to add to the running installation so that all requirements hold.

        Versions in `fixed` cannot change; those in `preferred` are kept if that is possible.
        Raises PluginError (`INSTALLER_FAILED`).
        """
        text: str | None = None
        if preferred:
            with _resolving({**fixed, **preferred}) as arguments:
                text = self._run(*arguments, *requirements, expect=False)
        if text is None:
            with _resolving(fixed) as arguments:
                text = self._run(*arguments, *requirements, fixed=fixed)
        assert text is not None
        return tuple(_planned(text))

    def install(self, planned: Sequence[Planned], site: Path) -> None:
        """Unpack exactly these into `site`. Raises PluginError (`INSTALLER_FAILED`)."""
        # A directory may have changed although its version has not. (A refresh, which would say
        # it better, is refused offline.)
        again = [f"--reinstall-package={one.name}" for one in planned if one.url]
        requirements = [one.requirement for one in planned]
        self._run("--no-deps", f"--target={site}", *again, *requirements)

    def _run(
        self, *arguments: str, expect: bool = True, fixed: Mapping[str, str] | None = None
    ) -> str | None:
        command = [self._program, "pip", "install", f"--python={sys.executable}", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self._directory,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise PluginError(
                f"uv cannot be started: {self._program}: {error.strerror}",
                code="INSTALLER_MISSING",
                status=_NOT_FOUND,
            ) from None
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode == 0:
            return text
        if not expect and done.returncode > 0:
            return None
        lines = [*explained(text, fixed or {}), masked(_CHATTER.sub("", text)).strip()]
        raise PluginError(
            "\n".join([f"uv failed in profile directory {self._directory}", *filter(None, lines)]),
            code="INSTALLER_FAILED",
            # A status below zero is the signal that ended it.
            status=done.returncode if done.returncode > 0 else 1,
        )


@contextmanager
def _resolving(versions: Mapping[str, str]) -> Generator[tuple[str, ...]]:
    """Arguments for one resolution under these constraints; their file is not in the profile."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="dsh-", suffix=".txt") as file:
        file.writelines(f"{name}=={version}\n" for name, version in versions.items())
        file.flush()
        # Nothing is installed into it, so a Python that the system manages is no obstacle.
        yield "--dry-run", "--break-system-packages", "-c", file.name


def running_versions() -> dict[str, str]:
    """Every distribution of the running installation, the first of each name."""
    from importlib.metadata import distributions

    found: dict[str, str] = {}
    for one in distributions():
        if "Name" in one.metadata and "Version" in one.metadata:  # a damaged one has neither
            found.setdefault(normal_name(one.metadata["Name"]), one.metadata["Version"])
    return found


def explained(text: str, installed: Mapping[str, str]) -> Iterator[str]:
    """The requirements in uv's explanation that exclude each other, one line for each conflict."""
    text = _WRAPPED.sub(" ", text)
    needs: dict[str, dict[str, str]] = {}
    for owner, name, bounds in _NEEDS.findall(text):
        needs.setdefault(normal_name(name), {})[f"{owner} needs {name}{bounds}"] = bounds
    for name, bounds in _WANTS.findall(text):
        needs.setdefault(normal_name(name), {})[f"the profile needs {name}{bounds}"] = bounds
    for name, wanted in needs.items():
        if name in installed:
            for line in wanted:
                yield f"  {line}, and the running installation has {name} {installed[name]}"
        elif len(set(wanted.values())) > 1:
            yield f"  {', and '.join(wanted)}"


def _planned(text: str) -> Iterator[Planned]:
    for name, version, source, url in _PLANNED.findall(text):
        place = url or source or None
        exact = f"{name} @ {place}" if place else f"{name}=={version}"
        yield Planned(normal_name(name), exact, place)


def _find(environ: Mapping[str, str]) -> str:
    found = shutil.which("uv", path=environ.get("PATH"))
    if found is not None:
        return found
    try:
        from uv import find_uv_bin  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        return str(find_uv_bin())  # pyright: ignore[reportUnknownArgumentType]
    except (ImportError, FileNotFoundError):
        raise PluginError(
            "plugins are installed with uv, which was not found; install uv, or"
            " pip install 'dsh-cli[plugins]'",
            code="INSTALLER_MISSING",
            status=_NOT_FOUND,
        ) from None
