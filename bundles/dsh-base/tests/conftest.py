"""A profile of this bundle alone."""

from __future__ import annotations

import os
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dsh_agent_loop_testkit import assert_no_leaks
from dsh_app_boot import Composition, boot, compose, open_profile
from dsh_cordis import Context
from dsh_cordis_loader import EntryPoints, scan_entry_points
from dsh_launch_environment import LaunchEnvironment


@dataclass
class Base:
    """The bundle's composition under a home of the test's own, with patches over it."""

    home: Path
    points: EntryPoints = field(default_factory=scan_entry_points)
    patches: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        directory = self.home / "profiles" / "bare"
        directory.mkdir(parents=True)
        (directory / "pyproject.toml").write_text('[tool.dsh.profile]\nbundles = ["dsh-base"]\n')

    def patch(self, text: str) -> None:
        """Apply a patch over the bundle in every later boot."""
        patch = self.home / f"patch{len(self.patches)}.yml"
        patch.write_text(textwrap.dedent(text))
        self.patches.append(patch)

    def plugin(self, name: str, text: str) -> None:
        """Write a plugin beside the patches."""
        (self.home / name).write_text(textwrap.dedent(text))

    def compose(self) -> Composition:
        """The rows, and the patches that found no target."""
        profile = open_profile("bare", home=self.home, entry_points=self.points)
        return compose(profile, home=self.home, entry_points=self.points, overlays=self.patches)

    @asynccontextmanager
    async def booted(self, variables: Mapping[str, str] | None = None) -> AsyncIterator[Context]:
        """The running tree; nothing of it is left afterwards."""
        environment = LaunchEnvironment({"PATH": os.environ["PATH"], **(variables or {})})
        async with assert_no_leaks(), Context() as root:
            await boot(
                root,
                self.compose().rows,
                home=self.home,
                environment=environment,
                entry_points=self.points,
            )
            yield root


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return Base(tmp_path / "home")
