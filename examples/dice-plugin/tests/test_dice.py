from __future__ import annotations

import asyncio
import json

import dsh_dice
from dsh_agent_loop_testkit import Call, agent_kit, assert_no_leaks, call_reply
from dsh_session import TOOL_RESULT


def coins(ctx, _config):
    ctx.plugin(dsh_dice, {"sides": 2})


async def rolled(arguments: dict) -> str:
    replies = [call_reply(Call("roll", arguments)), "There."]
    async with assert_no_leaks(), agent_kit(replies, plugins=[coins]) as kit:
        await kit.say("roll")
        (result,) = kit.of(TOOL_RESULT)
        return result.message.content[0].content[0].text


def test_an_agent_rolls_dice():
    numbers = json.loads(asyncio.run(rolled({"count": 3})))
    assert len(numbers) == 3
    assert set(numbers) <= {1, 2}


def test_too_many_dice_are_refused():
    assert "count" in asyncio.run(rolled({"count": 11}))
