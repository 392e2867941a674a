"""Many agents, and users who change their mind all the time."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest
from dsh_agent_loop_testkit import assert_no_leaks
from dsh_llm import create_user_message
from dsh_llm_mock_server import Reply
from dsh_session import ByUser

pytestmark = pytest.mark.anyio


def one_call(request: Any) -> Reply:
    if request.messages[-1]["role"] == "user":
        return Reply.call("todo_write", {"todos": []})
    return Reply.text("ok")


async def test_agents_that_come_and_go_leave_nothing(product: Any) -> None:
    async with assert_no_leaks(), product(one_call) as it:
        counts: list[tuple[int, int]] = []
        for number in range(60):
            handle = await it.create(f"s{number}")
            assert await it.say(handle.agent, "go") == "TurnCompleted"
            await handle.dispose()
            counts.append((len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))))
        # The first ones open what all share: connections, threads, the watch for children.
        tasks, descriptors = (max(column) for column in zip(*counts[5:10], strict=True))
        assert counts[-1][0] <= tasks
        assert counts[-1][1] <= descriptors


class Moody:
    """A model of which one answer in ten breaks off or fails."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def __call__(self, request: Any) -> Reply:
        luck = self._chance.random()
        if luck < 0.05:
            return Reply.text("x").cut()
        if luck < 0.1:
            return Reply.status(500)
        if request.messages[-1]["role"] == "user" and luck < 0.7:
            call = {"command": "sleep 0.03; echo 1", "description": "d"}
            return Reply.think("hm", chunk_size=1).text("b" * 80, chunk_size=1).call("bash", call)
        return Reply.text("ok " * 20, chunk_size=2).pace(1)


async def change_ones_mind(agent: Any, chance: random.Random) -> None:
    for number in range(25):
        message = create_user_message(f"m{number}")
        wish = chance.random()
        if wish < 0.4:
            agent.followup(message)
        elif wish < 0.5:
            agent.steer(message)
        elif wish < 0.6:
            agent.inject(message)
        elif wish < 0.9:
            agent.cancel(ByUser(), keep_inbox=chance.random() < 0.5)
        else:
            await agent.when_idle()
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01]))


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_storm_of_cancels_leaves_closed_logs_that_go_on(
    product: Any, closed: Any, seed: int
) -> None:
    chance = random.Random(seed)

    async def user(it: Any, name: str) -> None:
        handle = await it.create(name)
        await change_ones_mind(handle.agent, chance)
        if chance.random() < 0.5:
            await handle.agent.when_idle()
        # Else in the middle of whatever it does.
        await handle.dispose()
        closed(handle.agent)
        handle = await it.resume(name)
        assert await it.say(handle.agent, "final") in ("TurnCompleted", "TurnFailed")
        closed(handle.agent)

    async with assert_no_leaks(), product(Moody(chance)) as it, asyncio.TaskGroup() as users:
        for number in range(6):
            users.create_task(user(it, f"user{number}"))
