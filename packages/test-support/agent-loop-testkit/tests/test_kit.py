"""The kit runs real agents, and its leak check finds what stays."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from dsh_agent import AGENT_CREATED, AGENTS, AgentOptions, CreateAgent
from dsh_agent_loop_testkit import (
    Call,
    ScriptedAdapter,
    TurnEndedError,
    agent_kit,
    assert_no_leaks,
    call_reply,
    failed_reply,
    text_reply,
)
from dsh_cordis import Context
from dsh_llm import BlockAssembler, GenerateOptions, LlmCallConfig, LlmError, TextBlock
from dsh_session import TURN_END
from dsh_tools import tool

pytestmark = pytest.mark.anyio

REQUEST = GenerateOptions(config=LlmCallConfig(provider="p", model="m"), messages=())


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def assembled(adapter):
    assembler = BlockAssembler()
    async for chunk in adapter.stream(REQUEST):
        assembler.push(chunk)
    return assembler


async def test_an_agent_answers_in_three_lines():
    async with agent_kit([call_reply(Call("add", {"a": 1, "b": 2})), "three"], tools=[add]) as kit:
        assert await kit.say("What is 1 + 2?") == "three"
        assert "tool/result" in kit.logged()


async def test_a_turn_that_failed_is_raised():
    async with agent_kit([failed_reply("no", code="AUTH", status=401)]) as kit:
        with pytest.raises(TurnEndedError) as caught:
            await kit.say("hi")
        assert caught.value.reason.error.code == "AUTH"
        assert len(kit.of(TURN_END)) == 1


async def test_a_script_answers_with_text_chunks_functions_and_streams():
    async def stream(_options):
        for chunk in text_reply("streamed"):
            yield chunk

    async def later(_options):
        return "awaited"

    replies = ["text", text_reply("chunks"), lambda options: "called", later, stream]
    adapter = ScriptedAdapter(replies)
    texts = [(await assembled(adapter)).blocks()[0].text for _ in replies]
    assert texts == ["text", "chunks", "called", "awaited", "streamed"]
    assert adapter.requests == [REQUEST] * 5


async def test_a_request_beyond_the_script_fails():
    with pytest.raises(LlmError) as caught:
        await assembled(ScriptedAdapter())
    assert caught.value.code == "SCRIPT_EXHAUSTED"


async def test_scripted_calls_carry_text_and_arguments():
    reply = call_reply(Call("add", {"a": 1}), Call("add", "broken", id="c2"), text="let me see")
    blocks = (await assembled(ScriptedAdapter([reply]))).blocks()
    assert blocks[0] == TextBlock("let me see")
    assert [block.arguments for block in blocks[1:]] == ['{"a": 1}', "broken"]


async def test_a_disposed_kit_leaves_nothing():
    async with assert_no_leaks(), agent_kit(["hello"]) as kit:
        await kit.say("hi")


async def test_a_task_that_stays_is_named():
    forever = None
    with pytest.raises(AssertionError, match="tasks: stays"):
        async with assert_no_leaks(within_s=0):
            forever = asyncio.create_task(asyncio.Event().wait(), name="stays")
    forever.cancel()


async def test_a_descriptor_that_stays_is_named(tmp_path):
    path = tmp_path / "open"
    path.touch()
    with pytest.raises(AssertionError, match=f"descriptors: {path}"):
        async with assert_no_leaks(within_s=0):
            descriptor = os.open(path, os.O_RDONLY)
    os.close(descriptor)


async def test_a_child_process_that_stays_is_named():
    with pytest.raises(AssertionError, match="children: "):
        async with assert_no_leaks(within_s=0):
            child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.communicate(b"\n")


async def test_a_fiber_and_a_listener_that_stay_are_named():
    async with Context() as root:
        with pytest.raises(AssertionError, match="agent/created") as caught:
            async with assert_no_leaks(within_s=0):

                def plugin(ctx, _config):
                    ctx.on(AGENT_CREATED, print)

                await root.plugin(plugin)
        assert "fibers: plugin" in str(caught.value)


async def test_an_agent_that_stays_is_named():
    async with agent_kit() as kit:
        with pytest.raises(AssertionError, match="lifecycle"):
            async with assert_no_leaks(within_s=0):
                await kit.root[AGENTS].create(
                    CreateAgent(session_id="stays", agent_options=AgentOptions())
                )


async def test_a_failing_block_is_not_blamed_for_leaks():
    with pytest.raises(ValueError, match="mine"):
        async with assert_no_leaks(within_s=0):
            task = asyncio.create_task(asyncio.Event().wait())
            raise ValueError("mine")
    task.cancel()
