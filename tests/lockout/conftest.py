"""A home in which something of the user's is wrong, and what its owner does about it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from dsh_llm_mock_server import MockServer, Reply

TESTS = Path(__file__).resolve().parents[1]

NO_SANDBOX = "dsh: no sandbox: commands and file changes have your own rights"


def _fixtures(directory: str) -> ModuleType:
    """The fixtures of another directory of tests."""
    name = f"dsh_tests_{directory}"
    spec = importlib.util.spec_from_file_location(name, TESTS / directory / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


_headless = _fixtures("headless")
dsh = _headless.dsh
model = _headless.model


@dataclass
class User:
    """Starts tasks, reads what is told on stderr, and types what that says."""

    dsh: Any
    profile: Path

    @property
    def patch(self) -> Path:
        return self.profile / "cordis.patch.yml"

    @property
    def home_patch(self) -> Path:
        return self.dsh.home / "cordis.patch.yml"

    def plugins(self, **sources: str) -> None:
        """Write plugins beside the profile's patch file."""
        for name, source in sources.items():
            (self.profile / f"{name}.py").write_text(source)

    def done(self, *flags: str) -> list[str]:
        """A task that has to be completed; the lines of stderr."""
        run = self.dsh.run("headless", *flags, "x")
        assert (run.code, run.stdout) == (0, "done\n"), run.stderr
        return told(run.stderr)

    def refused(self, *flags: str) -> list[str]:
        """A start that has to be refused before anything runs; the lines of stderr."""
        run = self.dsh.run("headless", *flags, "x")
        assert (run.code, run.stdout) == (1, ""), run.stderr
        return told(run.stderr)

    def type(self, command: str) -> str:
        """Run a command in a shell exactly as it was told; what it printed."""
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
        run = subprocess.run(
            ["sh", "-c", command],
            cwd=self.dsh.workspace,
            env=self.dsh.environment(PATH=path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, (command, run.stderr)
        return run.stdout.decode()

    def follow(self, lines: list[str]) -> None:
        """Type the last command that each line names."""
        for line in lines:
            _, found, command = line.rpartition("with: ")
            assert found, line
            self.type(command)


def told(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line != NO_SANDBOX]


@pytest.fixture
def user(dsh: Any, model: Callable[..., MockServer]) -> User:
    """The owner of a profile that is there."""
    model(lambda _request: Reply.text("done"))
    dsh.env["DSH_ACTIVATION_TIMEOUT_MS"] = "600"
    user = User(dsh, dsh.home / "profiles" / "headless")
    assert dsh.run("headless", "--help").code == 0  # makes the profile
    return user


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """Makes a wheel of a plugin."""
    write_wheel = _fixtures("plugins").write_wheel
    directory = tmp_path / "wheels"
    directory.mkdir()
    return lambda name, **options: write_wheel(directory, name, "1.0", **options)
