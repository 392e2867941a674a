"""Logs to store, and places to store them in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Context, Fiber
from dsh_llm import ModelSource, ToolCallBlock, create_assistant_message, create_user_message
from dsh_session import (
    ASSISTANT_MESSAGE,
    SESSIONS,
    STEP_END,
    STEP_START,
    TOOL_CALL,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
    AssistantMessage,
    Session,
    SessionEvent,
    SessionMeta,
    SessionStore,
    StepMark,
    ToolCall,
    TurnCompleted,
    TurnEnd,
    TurnStart,
)
from dsh_session_persistence import SESSION_PERSISTENCE, SessionPersistence
from dsh_session_persistence.testing import MemoryBackend, MemoryPersistence
from dsh_session_persistence_jsonl import JsonlSessionPersistence

CWD = SessionMeta(cwd="/w")


@dataclass
class Home:
    """A storage that several processes, so to speak, open one after another."""

    kind: str
    root: Path
    memory: MemoryBackend = field(default_factory=MemoryBackend)

    def mount(self, ctx: Context, **config: Any) -> Fiber:
        if self.kind == "memory":
            return ctx.extend(memory_backend=self.memory).plugin(MemoryPersistence, config)
        return ctx.plugin(JsonlSessionPersistence, {"root": str(self.root), **config})

    def open(self, **config: Any) -> Process:
        return Process(self, config)

    def content(self, session_id: str = "s") -> bytes:
        if self.kind == "memory":
            return self.memory.logs[session_id][1]
        (path,) = self.root.glob(f"*/{session_id}/session.jsonl.zstd")
        return path.read_bytes()

    def tear(self, session_id: str = "s") -> None:
        """Leave what a crash in the middle of a write leaves."""
        if self.kind == "memory":
            header, content = self.memory.logs[session_id]
            self.memory.logs[session_id] = (header, content + b'{"type":"turn/e')
        else:
            (path,) = self.root.glob(f"*/{session_id}/session.jsonl.zstd")
            path.write_bytes(path.read_bytes() + b"\x28\xb5")


class Process:
    """One context tree with sessions and their storage."""

    def __init__(self, home: Home, config: dict[str, Any]) -> None:
        self.home = home
        self.config = config

    async def __aenter__(self) -> Process:
        self.ctx = Context()
        await self.ctx.plugin(SessionStore)
        self.fiber = await self.home.mount(self.ctx, **self.config)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.ctx.fiber.dispose()

    @property
    def sessions(self) -> SessionStore:
        return self.ctx[SESSIONS]

    @property
    def storage(self) -> SessionPersistence:
        return self.ctx[SESSION_PERSISTENCE]

    async def resume(self, session_id: str = "s") -> Session:
        with await self.storage.prepare(session_id) as preparation:
            self.publish(preparation.session)
            return preparation.session

    def publish(self, session: Session) -> None:
        def live() -> Any:
            yield self.sessions.enter(session)
            self.sessions.announce(session)

        self.ctx.effect(live)


@pytest.fixture(params=["memory", "jsonl"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return Home(request.param, tmp_path / "sessions")


@pytest.fixture
async def memory(tmp_path: Path) -> Home:
    return Home("memory", tmp_path)


@pytest.fixture
async def process(home: Home) -> AsyncIterator[Process]:
    async with home.open() as opened:
        yield opened


def turn(session: Session, number: int = 1, *, until: str = "turn/end") -> None:
    """Append a turn, or its beginning: `step`, `calls` (one started, one not), `turn/end`."""
    session.append(TURN_START, TurnStart(number))
    message = create_user_message("go on")
    session.append(USER_MESSAGE, message, surface_op="append")
    session.append(STEP_START, StepMark(number, 1))
    if until == "step":
        return
    blocks = [ToolCallBlock(call, "bash", "{}") for call in ("c1", "c2")]
    if until != "calls":
        blocks = []
    answer = create_assistant_message(blocks, source=ModelSource("p", "m"))
    session.append(ASSISTANT_MESSAGE, AssistantMessage(number, 1, answer), surface_op="append")
    if until == "calls":
        session.append(TOOL_CALL, ToolCall(number, 1, "c1", "bash", "{}"))
        return
    session.append(STEP_END, StepMark(number, 1))
    session.append(TURN_END, TurnEnd(number, TurnCompleted()))


def types(events: Any) -> list[str]:
    return [event.type for event in events]


def made(key: Any, data: Any, seq: int) -> SessionEvent[Any]:
    return SessionEvent(key.name, seq, 1000, key.encode(data), key.decode)


@pytest.fixture
def tools() -> dict[str, Callable[..., Any]]:
    return {"turn": turn, "types": types, "made": made}
