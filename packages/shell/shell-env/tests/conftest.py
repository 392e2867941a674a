"""A tree with the registry, and agents as it sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from dsh_cordis import Context
from dsh_llm import SessionId
from dsh_session import Session, SessionHeader
from dsh_shell_env import ShellEnv


@dataclass(eq=False)
class Caller:
    """An agent as far as the registry sees it."""

    id: SessionId
    session: Session
    ctx: Context


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Context]:
    async with Context() as root:
        await root.plugin(ShellEnv, {"dshHome": str(tmp_path)})
        yield root


@pytest.fixture
def agent(root: Context) -> Callable[[str], Caller]:
    def make(name: str) -> Caller:
        header = SessionHeader(id=SessionId(name), created_at=1, cwd="/")
        return Caller(header.id, Session.create(header.id, header=header), root)

    return make
