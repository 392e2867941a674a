"""Every member as a stranger gets it: built once, each in an environment of its own.

`nox -s wheels` runs these tests, `nox -s wheels -- NAME …` those of some members. Without it they
are not collected: building and installing takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from types import MappingProxyType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALONE = Path(__file__).with_name("alone.py")
CHOICE = "DSH_WHEELS"
INSTALL = re.compile(r"^ *pip install ([^#\n]+)", re.MULTILINE)
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MEASURED = "dsh-profile-headless"

collect_ignore_glob = [] if CHOICE in os.environ else ["test_*.py"]
measured = pytest.StashKey[str]()

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Member:
    """One distribution of the workspace."""

    directory: Path

    @cached_property
    def pyproject(self) -> dict[str, Any]:
        return tomllib.loads((self.directory / "pyproject.toml").read_text("utf-8"))

    @property
    def project(self) -> dict[str, Any]:
        return self.pyproject["project"]

    @property
    def name(self) -> str:
        return self.project["name"]

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def group(self) -> str:
        """`packages`, `bundles` or `profiles`."""
        return self.directory.relative_to(ROOT).parts[0]

    @property
    def stem(self) -> str:
        """How the names of its artifacts begin."""
        return f"{self.package}-{self.project['version']}"


@dataclass(frozen=True)
class Artifacts:
    """Where what was built lies: wheels of all members, the rest of the chosen ones."""

    directory: Path

    def wheel(self, member: Member) -> Path:
        """Built from the repository."""
        return self.directory / "wheels" / f"{member.stem}-py3-none-any.whl"

    def sdist(self, member: Member) -> Path:
        return self.directory / "sdists" / f"{member.stem}.tar.gz"

    def rebuilt(self, member: Member) -> Path:
        """The wheel that was built from the sdist."""
        return self.directory / "sdists" / f"{member.stem}-py3-none-any.whl"


@dataclass(frozen=True)
class Verdict:
    """What became of a wheel in its own environment. None: a step before it failed.

    Imported with only what it declares; shown with what its README says to install; tested with
    what its tests declare.
    """

    installed: Done
    imported: Done | None = None
    shown: Done | None = None
    tested: Done | None = None


def _members() -> list[Member]:
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"][
        "workspace"
    ]
    found = [
        Member(path.parent)
        for pattern in workspace["members"]
        for path in ROOT.glob(f"{pattern}/pyproject.toml")
    ]
    return sorted(found, key=lambda member: member.name)


def _chosen() -> list[Member]:
    members = _members()
    names = os.environ.get(CHOICE, "").split() or [member.name for member in members]
    if unknown := set(names) - {member.name for member in members}:
        raise pytest.UsageError(f"no members: {', '.join(sorted(unknown))}")
    return [member for member in members if member.name in names]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `member` runs once for each chosen one."""
    if "member" in metafunc.fixturenames:
        chosen = _chosen()
        metafunc.parametrize("member", chosen, ids=[member.name for member in chosen])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the whole product takes on a disk."""
    if measured in config.stash:
        terminalreporter.write_line(config.stash[measured])


def _run(
    *command: str | Path,
    cwd: Path = ROOT,
    first_on_path: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Done:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL_ENV", "DSH_", "DEEPSEEK_"))
    }
    if first_on_path:
        env["PATH"] = f"{first_on_path}:{env['PATH']}"
    env |= variables
    return subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def pool() -> Any:
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        yield executor


@pytest.fixture(scope="session")
def artifacts(pool: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    directory = tmp_path_factory.mktemp("dist")
    chosen = {member.name for member in _chosen()}

    def build(member: Member) -> list[Done]:
        command = ("uv", "build", "--quiet", f"--package={member.name}", "--out-dir")
        done = [_run(*command, directory / "wheels", "--wheel")]
        if member.name in chosen:  # without --wheel: an sdist, and a wheel from that
            done.append(_run(*command, directory / "sdists"))
        return done

    failed = [one for done in pool.map(build, _members()) for one in done if one.returncode]
    assert not failed, "\n".join(one.stderr for one in failed)
    return Artifacts(directory)


@pytest.fixture(scope="session")
def constraints(artifacts: Artifacts) -> Path:
    """Third parties as locked, siblings as built: no index is asked about our own names."""
    locked = _run(
        *("uv", "export", "--frozen", "--quiet", "--all-packages", "--all-groups"),
        *("--no-emit-workspace", "--no-hashes", "--no-annotate", "--no-header"),
    )
    assert locked.returncode == 0, locked.stderr
    siblings = [f"{one.name} @ {artifacts.wheel(one).as_uri()}\n" for one in _members()]
    path = artifacts.directory / "constraints.txt"
    path.write_text(locked.stdout + "".join(siblings), "utf-8")
    return path


@pytest.fixture(scope="session")
def verdicts(
    pool: ThreadPoolExecutor, constraints: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Verdict]]:
    """All members at once, as many at a time as there are processors."""
    directory = tmp_path_factory.mktemp("alone")
    return {
        member.name: pool.submit(_judge, member, directory / member.name, constraints)
        for member in _chosen()
    }


@pytest.fixture
def verdict(
    member: Member, verdicts: dict[str, Future[Verdict]], pytestconfig: pytest.Config
) -> Verdict:
    verdict = verdicts[member.name].result()
    if member.name == MEASURED and verdict.imported and verdict.imported.returncode == 0:
        size = json.loads(verdict.imported.stdout)
        pytestconfig.stash[measured] = (
            f"{MEASURED}: {size['distributions']} distributions with its own,"
            f" {size['bytes'] / 1e6:.1f} MB without byte code"
        )
    return verdict


def _judge(member: Member, directory: Path, constraints: Path) -> Verdict:
    """Install a wheel and nothing else, then what each next step is promised."""
    python = directory / "env" / "bin" / "python"

    def install(*requirements: str) -> Done:
        return _run(
            *("uv", "pip", "install", "--quiet", f"--python={python}"),
            *(f"--constraints={constraints}", *requirements),
        )

    made = _run("uv", "venv", "--quiet", f"--python={sys.executable}", directory / "env")
    if made.returncode:
        return Verdict(made)
    installed = install(f"{member.name}=={member.project['version']}")
    if installed.returncode:
        return Verdict(installed)
    imported = _run(python, "-I", "-W", "error", ALONE, member.name, member.package, cwd=directory)
    readme = (member.directory / "README.md").read_text("utf-8")
    promised = [name for line in INSTALL.findall(readme) for name in line.split()]
    installed = install(*promised)
    if installed.returncode:
        return Verdict(installed, imported)
    shown = _show(EXAMPLE.findall(readme), python, directory)
    # The workspace's settings of pytest hold here too, and one of them is the timeout's.
    installed = install(*member.pyproject["dependency-groups"]["test"], "pytest-timeout")
    if installed.returncode:
        return Verdict(installed, imported, shown)
    return Verdict(installed, imported, shown, _test(member, python, directory))


def _show(examples: list[str], python: Path, directory: Path) -> Done:
    """Run the examples of a README; the first that fails, else the last."""
    home = directory / "home"
    home.mkdir()
    done: Done = subprocess.CompletedProcess((), 0, "", "")
    for example in examples:
        done = _run(
            *(python, "-P", "-s", "-W", "error", "-c", example),
            cwd=home,
            first_on_path=python.parent,
            variables={"HOME": str(home), "DSH_HOME": str(home / ".dsh")},
        )
        if done.returncode:
            break
    return done


def _test(member: Member, python: Path, directory: Path) -> Done:
    copytree(member.directory / "tests", directory / "tests", ignore=ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        copy(ROOT / name, directory / name)
    # Not -I: the standard library itself reads less of the environment then, and tests set it.
    command = (python, "-P", "-s", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    return _run(*command, cwd=directory, first_on_path=python.parent)
