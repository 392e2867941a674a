"""The same plugins in an agent: the model calls a tool, a listener decides about the call."""

from __future__ import annotations

import asyncio

import take_note
from dsh_agent_loop_testkit import Call, agent_kit, call_reply
from dsh_cordis import Context, Next
from dsh_session import TOOL_RESULT
from dsh_tools import TOOLS_PRE_EXECUTE, Deny, PreDecision, ToolExecution
from notes import NOTES, Notes


def no_secrets(ctx: Context, config: object) -> None:
    async def decide(call: ToolExecution, next: Next[PreDecision]) -> PreDecision:
        if "password" in str(call.arguments):
            return Deny("passwords are not for notes")
        return await next()

    ctx.on(TOOLS_PRE_EXECUTE, decide)


async def main() -> None:
    replies = [
        call_reply(Call("take_note", {"text": "buy milk"})),
        call_reply(Call("take_note", {"text": "the password is 1234"})),
        "I kept one note.",
    ]
    async with agent_kit(replies, plugins=[Notes, take_note, no_secrets]) as kit:
        print(await kit.say("Keep this: buy milk. And my password, 1234."))
        print(kit.root[NOTES].texts())
        for result in kit.of(TOOL_RESULT):
            (block,) = result.message.content
            print(block)


asyncio.run(main())
