"""What waits for the log, and what does not happen if the log cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dsh_agent import AGENT_PRE_STEP, Enter, PreStep
from dsh_cordis import AbortController, Context
from dsh_llm import (
    LLM,
    Adapter,
    Finish,
    GenerateOptions,
    LlmCallConfig,
    LlmRuntime,
    SessionId,
    Stop,
)
from dsh_session import SESSIONS, TURN_START, Session, SessionStore, TurnStart
from dsh_session_checkpoint_policy import SessionCheckpointPolicy
from dsh_session_persistence import SESSION_PERSISTENCE, SessionPersistenceError
from dsh_session_persistence.testing import MemoryBackend, MemoryPersistence
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_system_prompt import SystemPrompt
from dsh_tools import TOOLS, CallToken, ToolCallRequest, ToolRegistry, define_tool
from msgspec import Struct

pytestmark = pytest.mark.anyio


class Nothing(Struct):
    """No parameters."""


class Recorder(Adapter):
    """Answers at once and notes what was durable when it was asked."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.durable: list[int] = []

    async def stream(self, options: GenerateOptions) -> AsyncIterator[Any]:
        self.durable.append(self.kit.durable)
        yield Finish(Stop())


@dataclass(eq=False)
class Caller:
    id: SessionId
    session: Session
    ctx: Context


class Kit:
    """The services that the policy stands between, and a session with an event to write."""

    def __init__(self, root: Context, backend: MemoryBackend) -> None:
        self.root = root
        self.backend = backend
        self.session = root[SESSIONS].create("s")
        self.session.append(TURN_START, TurnStart(1))
        self.agent = Caller(self.session.id, self.session, root)
        self.ran: list[int] = []
        self.adapter = Recorder(self)
        root[LLM].register_adapter(["p"], self.adapter)

        async def execute(args: Nothing, execution: Any) -> str:
            self.ran.append(self.durable)
            return "done"

        definition = define_tool(name="probe", description="d", params=Nothing, execute=execute)
        root[TOOLS].register(definition)

    @property
    def durable(self) -> int:
        return sum(map(len, self.backend.batches))

    def fail(self) -> None:
        error = SessionPersistenceError("disk full", code="STORAGE_FULL")
        self.backend.failures.append(error)

    def request(self, **fields: Any) -> ToolCallRequest:
        given = {"agent": self.agent, "signal": AbortController().signal, **fields}
        return ToolCallRequest(call_id="c", name="probe", arguments={}, **given)

    def options(self, session_id: str | None) -> GenerateOptions:
        config = LlmCallConfig(provider="p", model="m")
        return GenerateOptions(config=config, messages=(), session_id=session_id)

    async def stream(self, session_id: str | None = "s") -> list[Any]:
        return [chunk async for chunk in self.root[LLM].stream(self.options(session_id))]

    async def step(self) -> Any:
        payload = PreStep(self.agent, (), 1, 1, AbortController().signal)

        async def enter() -> Enter:
            return Enter((str(self.durable),))

        return await self.root.waterfall(AGENT_PRE_STEP, payload, inner=enter)


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    backend = MemoryBackend()
    async with Context() as root:
        for plugin in (SessionStore, LlmRuntime, SystemPrompt, ToolRegistry):
            await root.plugin(plugin)
        config = {"writeBatchMaxDelayMs": 60_000}
        await root.extend(memory_backend=backend).plugin(MemoryPersistence, config)
        await root.plugin(SessionCheckpointPolicy)
        yield Kit(root, backend)


async def test_a_model_request_waits_for_the_log(kit: Kit) -> None:
    await kit.stream()
    assert kit.adapter.durable == [1]


@pytest.mark.parametrize("session_id", [None, "unknown"])
async def test_requests_of_no_live_session_pass(kit: Kit, session_id: str | None) -> None:
    await kit.stream(session_id)
    assert kit.adapter.durable == [0]


async def test_a_tool_body_waits_for_the_log(kit: Kit) -> None:
    outcome = await kit.root[TOOLS].execute(kit.request())
    assert (outcome.is_error, kit.ran) == (False, [1])


async def test_calls_without_an_agent_or_inside_another_call_do_not_wait(kit: Kit) -> None:
    kit.fail()
    await kit.root[TOOLS].execute(kit.request(agent=None))
    await kit.root[TOOLS].execute(kit.request(parent=CallToken()))
    assert kit.ran == [0, 0]


async def test_a_step_waits_for_the_log(kit: Kit) -> None:
    assert await kit.step() == Enter(("1",))


async def test_without_a_durable_log_the_adapter_is_not_called(kit: Kit) -> None:
    kit.fail()
    try:
        chunks = await kit.stream()
    except SessionPersistenceError as error:
        assert error.code == "STORAGE_FULL"
    else:
        assert chunks[-1].reason.failure.message == "disk full"
    assert kit.adapter.durable == []


async def test_without_a_durable_log_the_tool_body_is_not_run(kit: Kit) -> None:
    kit.fail()
    outcome = await kit.root[TOOLS].execute(kit.request())
    assert outcome.is_error
    assert outcome.error.code == "STORAGE_FULL"
    assert kit.ran == []


async def test_without_a_durable_log_the_step_is_not_entered(kit: Kit) -> None:
    kit.fail()
    with pytest.raises(SessionPersistenceError, match="disk full"):
        await kit.step()
    assert await kit.step() == Enter(("1",))


async def test_a_call_aborted_while_the_log_is_written_is_not_run(kit: Kit) -> None:
    controller = AbortController()
    kit.backend.gate.clear()
    call = kit.root.spawn(kit.root[TOOLS].execute, kit.request(signal=controller.signal))
    await kit.backend.until(lambda b: b.attempts == 1)
    controller.abort()
    kit.backend.gate.set()
    outcome = await call
    assert (outcome.error.code, kit.ran) == ("ABORTED_BEFORE_DISPATCH", [])


CRASH = """
import asyncio, os, signal, sys
from dsh_cordis import AbortController, Context
from dsh_llm import *
from dsh_session import *
from dsh_session_checkpoint_policy import SessionCheckpointPolicy
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_system_prompt import SystemPrompt
from dsh_tools import TOOLS, CallToken, ToolCallRequest, ToolRegistry, define_tool
from msgspec import Struct

class Nothing(Struct): pass

class Dies(Adapter):
    async def stream(self, options):
        os.kill(os.getpid(), signal.SIGKILL)
        yield Finish(Stop())

async def main(root, where):
    ctx = Context()
    for plugin in (SessionStore, LlmRuntime, SystemPrompt, ToolRegistry):
        await ctx.plugin(plugin)
    config = {"root": root, "writeBatchMaxDelayMs": 60000}
    await ctx.plugin(JsonlSessionPersistence, config)
    await ctx.plugin(SessionCheckpointPolicy)
    s = ctx[SESSIONS].create("s", meta=SessionMeta(cwd="/w"))
    s.append(TURN_START, TurnStart(1)); s.append(STEP_START, StepMark(1, 1))
    config = LlmCallConfig(provider="p", model="m")
    s.append(REQUEST_HEADER, RequestHeader(EpochHeader(config), "initial"))
    if where == "request":
        ctx[LLM].register_adapter(["p"], Dies())
        options = GenerateOptions(config=config, messages=(), session_id="s")
        async for chunk in ctx[LLM].stream(options): pass
    blocks = [ToolCallBlock("c1", "boom", "{}")]
    answer = create_assistant_message(blocks, source=ModelSource("p", "m"))
    s.append(ASSISTANT_MESSAGE, AssistantMessage(1, 1, answer), surface_op="append")
    s.append(TOOL_CALL, ToolCall(1, 1, "c1", "boom", "{}"))
    async def execute(args: Nothing, execution) -> str:
        with open(root + "-effect", "w") as file: file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    ctx[TOOLS].register(define_tool(name="boom", description="d", params=Nothing, execute=execute))
    class Caller: id = s.id; session = s; ctx = None
    known = {"call_id": "c1", "name": "boom", "arguments": {}}
    request = ToolCallRequest(**known, agent=Caller(), signal=AbortController().signal)
    await ctx[TOOLS].execute(request)

asyncio.run(main(*sys.argv[1:]))
"""


async def reopened(root: Path, where: str) -> tuple[Any, ...]:
    done = subprocess.run([sys.executable, "-c", CRASH, str(root), where], check=False)
    assert done.returncode == -signal.SIGKILL
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        await ctx.plugin(JsonlSessionPersistence, {"root": str(root)})
        return (await ctx[SESSION_PERSISTENCE].load("s")).events


async def test_a_kill_during_the_request_leaves_its_header_durable(tmp_path: Path) -> None:
    events = await reopened(tmp_path / "sessions", "request")
    assert [event.type for event in events] == [
        "turn/start",
        "step/start",
        "request/header",
        "step/end",
        "turn/end",
    ]


async def test_a_kill_after_a_side_effect_is_an_unknown_outcome(tmp_path: Path) -> None:
    events = await reopened(tmp_path / "sessions", "tool")
    assert os.path.exists(f"{tmp_path / 'sessions'}-effect")
    (result,) = [event for event in events if event.type == "tool/result"]
    assert result.data.error.code == "TOOL_OUTCOME_UNKNOWN"
