"""The members of the workspace, as the repository's own tests see them."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: Path
    package: str

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def at(self, node: ast.AST) -> str:
        """Where a node is, for a failure message."""
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


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
    def source(self) -> Path:
        return self.directory / "src" / self.package

    @property
    def group(self) -> str:
        """`packages`, `bundles` or `profiles`."""
        return self.directory.relative_to(ROOT).parts[0]

    @cached_property
    def modules(self) -> list[Module]:
        return [Module(path, self.package) for path in sorted(self.source.rglob("*.py"))]

    @cached_property
    def tests(self) -> list[Module]:
        return [
            Module(path, self.package) for path in sorted((self.directory / "tests").rglob("*.py"))
        ]

    @cached_property
    def is_empty(self) -> bool:
        """Whether it has nothing but a name yet."""
        files = [path for path in self.source.rglob("*") if path.is_file()]
        code = [path for path in files if path.suffix != ".pyc" and path.name != "py.typed"]
        return [path.name for path in code] == ["__init__.py"] and len(
            self.modules[0].tree.body
        ) == 1

    @cached_property
    def readme(self) -> str:
        return (self.directory / "README.md").read_text("utf-8")


def _members() -> list[Member]:
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"][
        "workspace"
    ]
    found = [
        Member(path.parent)
        for pattern in workspace["members"]
        for path in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))
    ]
    return sorted(found, key=lambda member: member.name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `member` runs once for each that has content."""
    if "member" in metafunc.fixturenames:
        members = [member for member in _members() if not member.is_empty]
        metafunc.parametrize("member", members, ids=[member.name for member in members])


@pytest.fixture(scope="session")
def members() -> list[Member]:
    return _members()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def workspace(root: Path) -> dict[str, Any]:
    """The root pyproject."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
