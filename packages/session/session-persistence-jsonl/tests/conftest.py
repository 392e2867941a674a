"""Sessions on disk, made and opened as processes do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Context
from dsh_llm import TextDelta
from dsh_session import (
    ASSISTANT_CHUNK,
    SESSIONS,
    STEP_END,
    STEP_START,
    TURN_END,
    TURN_START,
    AssistantChunk,
    Session,
    SessionMeta,
    SessionStore,
    StepMark,
    TurnCompleted,
    TurnEnd,
    TurnStart,
)
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_session_persistence_jsonl import JsonlSessionPersistence

CWD = SessionMeta(cwd="/a/b")


class Process:
    """One context tree over a root directory."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.sessions = ctx[SESSIONS]
        self.storage = ctx[SESSION_PERSISTENCE]

    async def write(self, session: Session, *batches: Callable[[Session], None]) -> None:
        """One durable batch for each."""
        for batch in batches:
            batch(session)
            await self.sessions.flush(session)

    def publish(self, session: Session) -> Session:
        def live() -> Any:
            yield self.sessions.enter(session)
            self.sessions.announce(session)

        self.ctx.effect(live)
        return session


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def opened(root: Path) -> Callable[..., AbstractAsyncContextManager[Process]]:
    @asynccontextmanager
    async def open_root(**config: Any) -> AsyncIterator[Process]:
        async with Context() as ctx:
            await ctx.plugin(SessionStore)
            await ctx.plugin(JsonlSessionPersistence, {"root": str(root), **config})
            yield Process(ctx)

    return open_root


def start(number: int = 1) -> Callable[[Session], None]:
    def append(session: Session) -> None:
        session.append(TURN_START, TurnStart(number))
        session.append(STEP_START, StepMark(number, 1))

    return append


def deltas(count: int, number: int = 1) -> Callable[[Session], None]:
    def append(session: Session) -> None:
        for index in range(count):
            chunk = AssistantChunk(number, 1, TextDelta(0, f"t{index} \u00e9\n"))
            session.append(ASSISTANT_CHUNK, chunk)

    return append


def end(number: int = 1) -> Callable[[Session], None]:
    def append(session: Session) -> None:
        session.append(STEP_END, StepMark(number, 1))
        session.append(TURN_END, TurnEnd(number, TurnCompleted()))

    return append


@pytest.fixture
def make(opened: Any, root: Path) -> Callable[..., Any]:
    async def stored(*batches: Any, session_id: str = "s", **config: Any) -> Path:
        """The file of a session that was written in these batches by a process that is gone."""
        async with opened(**config) as process:
            session = process.sessions.create(session_id, meta=CWD)
            await process.write(session, *batches)
        (path,) = root.glob(f"*/{session_id}/session.jsonl*")
        return path

    return stored


@pytest.fixture
def parts() -> Any:
    class Parts:
        start = staticmethod(start)
        deltas = staticmethod(deltas)
        end = staticmethod(end)
        cwd = CWD

    return Parts
