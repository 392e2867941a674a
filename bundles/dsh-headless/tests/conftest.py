"""The composition that `dsh headless` boots, in this process, against a scripted model server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dsh_agent_loop_testkit import assert_no_leaks
from dsh_app_boot import boot, compose, create_profile, open_profile
from dsh_cmdline import APP_EXIT, CMDLINE, AppExit, CommandLine
from dsh_cordis import Context
from dsh_cordis_loader import scan_entry_points
from dsh_launch_environment import LaunchEnvironment
from dsh_llm_mock_server import MockServer, Reply


@dataclass
class Harness:
    """Where runs happen, and what one came to."""

    home: Path
    workspace: Path
    capture: pytest.CaptureFixture[bytes]
    codes: list[int] = field(default_factory=list)
    patches: list[Path] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def plugin(self, text: str) -> None:
        """Add a row with a plugin of the test's own to every later run."""
        number = len(self.patches)
        (self.home.parent / f"extra{number}.py").write_text(textwrap.dedent(text))
        patch = self.home.parent / f"extra{number}.yml"
        patch.write_text(f"- insert: [{{id: extra{number}, name: ./extra{number}.py}}]\n")
        self.patches.append(patch)

    def patch(self, text: str) -> None:
        """Add a patch to every later run."""
        patch = self.home.parent / f"patch{len(self.patches)}.yml"
        patch.write_text(textwrap.dedent(text))
        self.patches.append(patch)

    @contextlib.asynccontextmanager
    async def booting(self, *args: str) -> AsyncIterator[tuple[Context, asyncio.Event]]:
        """The tree before its boot and the event of its end; unloaded at the end, without leaks."""
        ended = asyncio.Event()

        def request(code: int) -> None:
            self.codes.append(code)
            ended.set()

        async with assert_no_leaks(), Context() as root:
            root.provide(CMDLINE, CommandLine(args))
            root.provide(APP_EXIT, AppExit(request))
            yield root, ended

    async def boot(self, root: Context) -> None:
        """Start the rows of the profile."""
        points = scan_entry_points()
        if (self.home / "profiles" / "headless").exists():
            profile = open_profile("headless", home=self.home, entry_points=points)
        else:
            profile = create_profile("headless", "headless", home=self.home, entry_points=points)
        rows = compose(profile, home=self.home, entry_points=points, overlays=self.patches).rows
        environment = LaunchEnvironment({"PATH": os.environ["PATH"], **self.variables})
        await boot(root, rows, home=self.home, environment=environment, entry_points=points)

    async def run(self, *args: str) -> tuple[int, str, str]:
        """Boot, wait for the run's end, unload; status and what was printed."""
        async with self.booting(*args) as (root, ended):
            await self.boot(root)
            await ended.wait()
        return self.printed()

    def printed(self) -> tuple[int, str, str]:
        """The last status, stdout and stderr since the last call."""
        out, err = self.capture.readouterr()
        return self.codes[-1], out.decode(), err.decode()

    async def lines(self, *args: str) -> list[dict[str, Any]]:
        """The JSON lines of a run."""
        _code, out, _err = await self.run("--json", *args)
        return [json.loads(line) for line in out.splitlines()]

    def sessions(self) -> list[Path]:
        """The stored session files."""
        return sorted(self.home.glob("sessions/*/*/session.jsonl.zstd"))


@pytest.fixture
def harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Harness:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return Harness(tmp_path / "home", workspace, capsysbinary)


Serve = Callable[[Sequence[Reply]], Any]


@pytest.fixture
async def serve(harness: Harness) -> AsyncIterator[Serve]:
    """Starts a strict scripted model in a thread and points later runs at it."""
    with contextlib.ExitStack() as stack:

        def start(replies: Sequence[Reply]) -> MockServer:
            server = stack.enter_context(MockServer.threaded(replies))
            harness.variables |= {
                "DEEPSEEK_BASE_URL": server.base_url,
                "DEEPSEEK_API_KEY": "test-key",
            }
            return server

        yield start
