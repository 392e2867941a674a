"""Many agents at once in one process, on everything that a durable agent with a shell needs."""

from __future__ import annotations

import asyncio
import sys
import tempfile

import dsh_tool_bash
from dsh_agent import AGENTS, AgentOptions, AgentRegistry, CreateAgent
from dsh_agent_loop import AgentLoop
from dsh_bash_local import BashLocal
from dsh_cordis import Context
from dsh_llm import LlmRuntime, create_user_message
from dsh_llm_deepseek import DeepSeekProvider
from dsh_session import SESSIONS, TURN_END, SessionMeta, SessionStore, TurnCompleted
from dsh_session_checkpoint_policy import SessionCheckpointPolicy
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_shell_env import ShellEnv
from dsh_subprocess_local import LocalSubprocess
from dsh_system_prompt import SystemPrompt
from dsh_tools import ToolRegistry

PLUGINS = (
    SessionStore,
    LlmRuntime,
    SystemPrompt,
    ToolRegistry,
    AgentRegistry,
    AgentLoop,
    DeepSeekProvider,
    LocalSubprocess,
    BashLocal,
    ShellEnv,
    dsh_tool_bash,
)


async def main() -> None:
    prompt, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        async with Context() as root:
            await root.plugin(JsonlSessionPersistence, {"root": directory})
            for plugin in PLUGINS:
                await root.plugin(plugin)
            await root.plugin(SessionCheckpointPolicy)
            await asyncio.gather(
                *(run(root, f"agent-{n}", prompt, directory) for n in range(count))
            )


async def run(root: Context, name: str, prompt: str, cwd: str) -> None:
    options = AgentOptions(provider="deepseek-official", model="mock")
    made = await root[AGENTS].create(
        CreateAgent(session_id=name, agent_options=options, meta=SessionMeta(cwd=cwd))
    )
    made.agent.followup(create_user_message(prompt))
    await made.agent.when_idle()
    session = made.agent.session
    await root[SESSIONS].flush(session)
    last = session.events[-1]
    assert TURN_END.of(last), last
    assert isinstance(last.data.reason, TurnCompleted), last.data.reason


if __name__ == "__main__":
    asyncio.run(main())
