from __future__ import annotations

import asyncio
import json

import dsh_dice
import pytest
from dsh_agent_loop_testkit import Call, agent_kit, assert_no_leaks, call_reply
from dsh_cordis import ConfigError, validate_config
from dsh_session import TOOL_RESULT


def coins(ctx, _config):
    ctx.plugin(dsh_dice, {"sides": 2})


async def rolled(arguments: dict) -> tuple[str, list[dsh_dice.DiceRolled]]:
    """What the model reads of one roll, and what the log keeps."""
    replies = [call_reply(Call("roll", arguments)), "There."]
    async with assert_no_leaks(), agent_kit(replies, plugins=[coins]) as kit:
        await kit.say("roll")
        (result,) = kit.of(TOOL_RESULT)
        return result.message.content[0].content[0].text, list(kit.of(dsh_dice.DICE_ROLLED))


def test_an_agent_rolls_dice_and_the_log_keeps_the_numbers():
    text, logged = asyncio.run(rolled({"count": 3}))
    numbers = json.loads(text)
    assert len(numbers) == 3
    assert set(numbers) <= {1, 2}
    assert logged == [dsh_dice.DiceRolled(sides=2, numbers=tuple(numbers))]


def test_too_many_dice_are_refused_and_nothing_is_logged():
    text, logged = asyncio.run(rolled({"count": 11}))
    assert "count" in text
    assert logged == []


def test_a_die_with_one_side_is_refused():
    with pytest.raises(ConfigError, match="sides"):
        validate_config(dsh_dice.Config, {"sides": 1}, where="dice")
