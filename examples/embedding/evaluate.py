"""Asks many questions at once and prints how many answers were right."""

from __future__ import annotations

import asyncio

from dsh_agent import AGENTS, AgentOptions, AgentRegistry, CreateAgent
from dsh_agent_loop import AgentLoop
from dsh_cordis import Context
from dsh_llm import LlmRuntime, SessionId, create_user_message, text_of
from dsh_llm_deepseek import DeepSeekProvider
from dsh_llm_retry import LlmRetry
from dsh_session import SessionStore
from dsh_system_prompt import SystemPrompt
from dsh_tools import TOOLS, ToolRegistry, tool

SPINE = (SessionStore, LlmRuntime, SystemPrompt, ToolRegistry, AgentRegistry, AgentLoop)
QUESTIONS = [(a, b) for a in range(12, 15) for b in range(17, 19)]


@tool(concurrency_safe=True)
async def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


async def ask(root: Context, a: int, b: int) -> bool:
    """Whether a fresh agent gets the product right."""
    options = AgentOptions(provider="deepseek-official", model="deepseek-v4-flash")
    made = await root[AGENTS].create(
        CreateAgent(session_id=SessionId(f"q-{a}-{b}"), agent_options=options)
    )
    made.agent.followup(create_user_message(f"How much is {a} * {b}? Answer with the number."))
    await made.agent.when_idle()
    answer = text_of(made.agent.session.derive_messages()[-1].content)
    await made.dispose()
    return str(a * b) in answer


async def main() -> None:
    async with Context() as root:
        for plugin in (*SPINE, DeepSeekProvider, LlmRetry):
            await root.plugin(plugin)
        root[TOOLS].register(multiply)
        right = await asyncio.gather(*(ask(root, a, b) for a, b in QUESTIONS))
        print(f"{sum(right)} of {len(right)} right")


asyncio.run(main())
