"""The same plugins in an agent: the model calls a tool, a listener decides about the call."""

from __future__ import annotations

import asyncio

import take_note
from dsh_agent_loop_testkit import Call, agent_kit, call_reply
from dsh_cordis import Context, Next
from dsh_llm import ToolResultBlock, text_of
from dsh_session import TOOL_RESULT
from dsh_tools import TOOLS_PRE_EXECUTE, Deny, PreDecision, ToolExecution
from notes import NOTES, Notes


def no_secrets(ctx: Context, _config: object) -> None:
    async def decide(call: ToolExecution, next: Next[PreDecision]) -> PreDecision:
        if "password" in str(call.arguments):
            return Deny("passwords are not for notes")
        return await next()

    ctx.on(TOOLS_PRE_EXECUTE, decide)


async def main() -> None:
    async with agent_kit(
        [  # what the model will say
            call_reply(Call("take_note", {"text": "buy milk"})),
            call_reply(Call("take_note", {"text": "the password is 1234"})),
            "I kept one note.",
        ],
        plugins=[Notes, take_note, no_secrets],
    ) as kit:
        print(await kit.say("Keep this: buy milk. And my password, 1234."))
        print(kit.root[NOTES].texts())
        for result in kit.of(TOOL_RESULT):
            for block in result.message.content:
                if isinstance(block, ToolResultBlock):
                    print("the model was told:", text_of(block.content))


asyncio.run(main())
