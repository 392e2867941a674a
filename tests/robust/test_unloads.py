"""Rows that go, or go and come back, in the middle of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from dsh_llm import create_user_message
from dsh_llm_mock_server import Reply
from dsh_session import SESSION_EVENT, SessionAppended

pytestmark = pytest.mark.anyio

SPINE = ("llm", "tools", "system-prompt", "agent", "agent-loop", "session")
"""Without one of these there is no agent: it ends, with its log closed."""
PARTS = (
    "llm-deepseek",
    "llm-retry",
    "tool-bash",
    "bash-local",
    "subprocess",
    "session-persistence-jsonl",
    "session-checkpoint-policy",
    "fs-local",
)
"""These come and go under a living agent."""


STAGES = {"stream": "assistant/chunk", "tool": "tool/call"}
"""What the log says once a turn is there."""


def model(stage: str) -> Callable[[Any], Reply]:
    """Streams half an answer, or calls a slow tool, then finishes; says `done` to `again`."""

    def reply(request: Any) -> Reply:
        last = request.messages[-1]
        if last["role"] != "user" or "again" in last["content"]:
            return Reply.text("done")
        call = {"command": "sleep 0.2; echo 1", "description": "d"}
        if stage == "stream":
            return Reply.text("half").pause(200).text("more").call("bash", call)
        return Reply.call("bash", call).call("todo_write", {"todos": []})

    return reply


async def start_turn(it: Any, agent: Any, stage: str) -> None:
    """Send a task and wait until its turn is in the middle of `stage`."""
    reached = asyncio.Event()

    def look(appended: SessionAppended) -> None:
        if appended.event.type == STAGES[stage]:
            reached.set()

    stop = it.root.on(SESSION_EVENT, look, unscoped=True)
    agent.followup(create_user_message("go"))
    await reached.wait()
    stop()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("row", [*SPINE, *PARTS])
async def test_a_turn_ends_in_order_when_a_row_restarts_under_it(
    product: Any, closed: Any, row: str, stage: str
) -> None:
    async with product(model(stage)) as it:
        agent = (await it.create()).agent
        await start_turn(it, agent, stage)
        await it.row(row).restart()
        await agent.when_idle()
        closed(agent)
        assert it.live(agent) is (row in PARTS)
        if row not in PARTS:
            agent = (await it.resume()).agent
        assert await it.say(agent, "again") == "TurnCompleted"
        closed(agent)


@pytest.mark.parametrize("stage", STAGES)
async def test_without_the_provider_the_turn_fails_and_names_what_is_missing(
    product: Any, closed: Any, stage: str
) -> None:
    async with product(model(stage)) as it:
        agent = (await it.create()).agent
        await start_turn(it, agent, stage)
        await it.row("llm-deepseek").dispose()
        await agent.when_idle()
        closed(agent)
        assert await it.say(agent, "again") == "TurnFailed"
