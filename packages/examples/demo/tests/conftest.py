"""`dsh demo` as a process, with a directory for temporary files of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 15.0
"""Far above what a demo needs; one that reaches it hangs."""


@dataclass
class Demo:
    """Starts demos whose temporary files and processes can be found."""

    directory: Path
    env: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "FORCE_COLOR")
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "dsh_cli", "demo", *args],
            env={**env, "TMPDIR": str(self.directory), **self.env},
            cwd=self.directory.parent,
            **options,
        )
        self.started.append(process)
        return process

    def run(self, *args: str, **options: Any) -> tuple[int, str, str]:
        """Status, stdout and stderr of a demo that ends by itself."""
        process = self.start(*args, **options)
        out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, (out or b"").decode(), (err or b"").decode()

    def left(self) -> list[str]:
        """Whatever the demos left in the directory for temporary files."""
        return sorted(path.name for path in self.directory.iterdir())

    def processes(self) -> list[str]:
        """Command lines of living processes that inherited a demo's environment."""
        mark = f"TMPDIR={self.directory}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes() + b"\0":
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    directory = tmp_path / "tmp"
    directory.mkdir()
    demo = Demo(directory)
    yield demo
    for process in demo.started:
        process.kill()
        process.communicate()
