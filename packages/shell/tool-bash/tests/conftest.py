"""The tool in a tree with real services."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dsh_tool_bash
import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import AbortController, Context
from dsh_llm import SessionId
from dsh_session import Session, SessionHeader
from dsh_shell_env import ShellEnv
from dsh_subprocess_local import LocalSubprocess
from dsh_system_prompt import SystemPrompt
from dsh_tools import TOOLS, ToolCallRequest, ToolOutcome, ToolRegistry

BELOW = (LocalSubprocess, ShellEnv, SystemPrompt, ToolRegistry)


@dataclass(eq=False)
class Caller:
    """An agent as far as the tool sees it."""

    id: SessionId
    session: Session
    ctx: Context


@pytest.fixture(autouse=True)
def temporary_files(tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spilled output goes where tests clean up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("spills")))


@pytest.fixture
async def below() -> AsyncIterator[Context]:
    """A tree with everything but a shell and the tool."""
    async with Context() as root:
        for plugin in BELOW:
            await root.plugin(plugin)
        yield root


@pytest.fixture
async def root(below: Context, tmp_path: Path) -> Context:
    await below.plugin(BashLocal, {"cwd": str(tmp_path), "graceMs": 200})
    await below.plugin(dsh_tool_bash)
    return below


@pytest.fixture
def agent(root: Context, tmp_path: Path) -> Callable[..., Caller]:
    """An agent whose session works in `cwd`."""

    def make(name: str = "s1", cwd: Path = tmp_path) -> Caller:
        header = SessionHeader(id=SessionId(name), created_at=1, cwd=str(cwd))
        return Caller(header.id, Session.create(header.id, header=header), root)

    return make


@pytest.fixture
def call(root: Context) -> Callable[..., Awaitable[ToolOutcome]]:
    """Run the tool; `options` are the arguments beside the command."""

    async def call(
        command: str, who: Caller | None = None, signal: Any = None, **options: Any
    ) -> ToolOutcome:
        return await root[TOOLS].execute(
            ToolCallRequest(
                call_id="c1",
                name="bash",
                arguments={"command": command, "description": "test", **options},
                signal=signal or AbortController().signal,
                agent=who,
            )
        )

    return call


@pytest.fixture
def text() -> Callable[[ToolOutcome], str]:
    """What the model reads."""
    return lambda outcome: "".join(getattr(block, "text", "?") for block in outcome.content)
