"""The installed `dsh` against a scripted model, each test in a home and workspace of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dsh_llm_mock_server import MockServer, Reply

TIMEOUT_S = 15.0
"""Far above what any of these runs needs; a run that reaches it hangs."""


@dataclass(frozen=True)
class Done:
    """A finished run."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines of stdout."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one type."""
        return [line for line in self.lines if line["type"] == kind]

    @property
    def session_id(self) -> str:
        return self.lines[0]["sessionId"]


@dataclass
class Dsh:
    """Runs `dsh` in `workspace` with harness home `home`."""

    home: Path
    workspace: Path
    env: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    """Program to run it under, such as bubblewrap."""
    may_leave_processes: bool = False
    """For tests that kill the harness itself, which then cannot end what it started."""

    def environment(self, **extra: str | None) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DSH_", "DEEPSEEK_")) and "proxy" not in name.lower()
        }
        wanted = {**inherited, "DSH_HOME": str(self.home), **self.env, **extra}
        return {name: value for name, value in wanted.items() if value is not None}

    def start(self, *args: str, env: dict[str, str | None] | None = None, **options: Any):
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "start_new_session": True,
            **options,
        }
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "dsh_cli", *args],
            cwd=self.workspace,
            env=self.environment(**(env or {})),
            **options,
        )

    def run(self, *args: str, env: dict[str, str | None] | None = None, **options: Any) -> Done:
        return finish(self.start(*args, env=env, **options))

    def headless(self, *args: str, **options: Any) -> Done:
        """A run with JSON lines."""
        return self.run("headless", "--json", *args, **options)

    def sessions(self) -> list[Path]:
        """The stored session files."""
        return sorted(self.home.glob("sessions/*/*/session.jsonl.zstd"))


def finish(process: subprocess.Popen[bytes], timeout_s: float = TIMEOUT_S) -> Done:
    """Wait for the end; a hanging run is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"dsh hangs\nstdout: {out.decode()}\nstderr: {err.decode()}")
    return Done(process.returncode, (out or b"").decode(), err.decode())


@pytest.fixture
def dsh(tmp_path: Path) -> Iterator[Dsh]:
    """A fresh home and workspace; at the end no process of the test may be left."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    dsh = Dsh(tmp_path / "home", workspace)
    yield dsh
    left = _left_behind(dsh.home, patience_s=0 if dsh.may_leave_processes else 5)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert dsh.may_leave_processes or not left, "processes are left behind"


def _left_behind(home: Path, *, patience_s: float) -> list[int]:
    """Processes that the harness with this home started, itself included."""
    mark = f"DSH_HOME={home}".encode()
    deadline = time.monotonic() + patience_s
    while left := [pid for pid in _pids() if mark in _environ(pid).split(b"\0")]:
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    return left


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def model(dsh: Dsh) -> Iterator[Callable[..., MockServer]]:
    """Starts a strict scripted model and points `dsh` at it."""
    with contextlib.ExitStack() as stack:

        def start(replies: Sequence[Reply] | Callable[..., Reply], **options: Any) -> MockServer:
            server = stack.enter_context(MockServer.threaded(replies, **options))
            dsh.env |= {"DEEPSEEK_BASE_URL": server.base_url, "DEEPSEEK_API_KEY": "test-key"}
            return server

        yield start


@pytest.fixture
def finished() -> Callable[..., Done]:
    """Waits for a started run."""
    return finish
