"""Distributions as an installer leaves them: packages with a dist-info beside them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
from dsh_cordis_loader import EntryPoints, scan_entry_points


class Site:
    """A directory on the path, and the distributions in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def install(
        self, distribution: str, files: Mapping[str, str], entry_points: Mapping[str, str]
    ) -> Path:
        """Write a package of that distribution; entry points are `group/name` to value."""
        package = self.directory / distribution.replace("-", "_")
        for name, text in {"__init__.py": "", **files}.items():
            file = package / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text), "utf-8")
        info = self.directory / f"{package.name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        groups: dict[str, list[str]] = {}
        for key, value in entry_points.items():
            group, _, name = key.partition("/")
            groups.setdefault(group, []).append(f"{name} = {value}\n")
        text = "".join(f"[{group}]\n{''.join(lines)}\n" for group, lines in groups.items())
        (info / "entry_points.txt").write_text(text, "utf-8")
        return package

    def bundle(self, name: str, patch: str, plugins: str = "") -> Path:
        """A bundle with a patch and one module of plugins."""
        module = name.replace("-", "_")
        return self.install(
            name,
            {"cordis.patch.yml": patch, "plugins.py": plugins},
            {f"dsh.bundles/{name}": module},
        )

    def template(self, name: str, bundles: list[str], patch: str = "[]\n") -> Path:
        """A profile template of that name."""
        return self.install(
            f"profile-{name}",
            {
                "template/pyproject.toml": (
                    f'[project]\nname = "dsh-profile-{name}-user"\nversion = "0"\n\n'
                    f"[tool.dsh.profile]\nbundles = {bundles!r}\n"
                ),
                "template/cordis.patch.yml": patch,
            },
            {f"dsh.profiles/{name}": f"profile_{name.replace('-', '_')}"},
        )

    @property
    def entry_points(self) -> EntryPoints:
        """What is installed here, and nothing else."""
        return scan_entry_points([str(self.directory)])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An empty installation on `sys.path`."""
    directory = tmp_path / "site"
    directory.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(directory))
    yield Site(directory)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(directory) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A harness home that does not exist yet."""
    return tmp_path / "home"
