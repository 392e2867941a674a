"""A plugin of the product as its author writes it; the type checker has nothing to say about it."""

from __future__ import annotations

from typing import Annotated, assert_type

import msgspec
from dsh_agent import (
    AGENT_PRE_STEP,
    AGENT_STATUS,
    AGENTS,
    Agent,
    AgentRegistry,
    AgentStatusChanged,
    PreStep,
    PreStepDecision,
    Reject,
)
from dsh_cordis import Context, Next
from dsh_fs import FS, FileSystem
from dsh_llm import create_user_message
from dsh_session import SESSION_EVENT, TURN_END, LogEvent, SessionAppended, SessionEvent, TurnEnd
from dsh_tools import (
    TOOLS,
    TOOLS_PRE_EXECUTE,
    Deny,
    PreDecision,
    ToolExecution,
    ToolRegistry,
    define_tool,
    tool,
)

inject = (AGENTS, TOOLS)


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    limit: int = 3


class Counted(msgspec.Struct, frozen=True):
    count: int


COUNTED = LogEvent("mine/counted", Counted)


class CountArguments(msgspec.Struct, frozen=True):
    text: Annotated[str, msgspec.Meta(description="What to count in.")]


@tool
async def shout(text: str, times: int = 1) -> str:
    """Say it loud."""
    return text.upper() * times


async def count(args: CountArguments, execution: ToolExecution) -> Counted:
    agent = execution.agent
    if agent is not None:
        logged = agent.session.append(COUNTED, Counted(len(args.text)))
        assert_type(logged, SessionEvent[Counted])
    return Counted(len(args.text))


COUNT = define_tool(
    name="count",
    description="Count characters.",
    params=CountArguments,
    execute=count,
    render=lambda _args, value: str(value.count),
)


def apply(ctx: Context, config: Config) -> None:
    assert_type(ctx[TOOLS], ToolRegistry)
    assert_type(ctx[AGENTS], AgentRegistry)
    files = ctx.get(FS)
    assert_type(files, FileSystem | None)
    ctx[TOOLS].register(shout)
    ctx[TOOLS].register(COUNT)

    def on_status(changed: AgentStatusChanged) -> None:
        assert_type(changed.agent, Agent)

    def on_event(appended: SessionAppended) -> None:
        if TURN_END.of(appended.event):
            assert_type(appended.event.data, TurnEnd)

    async def enter(step: PreStep, next: Next[PreStepDecision]) -> PreStepDecision:
        return Reject() if step.turn > config.limit else await next()

    async def judge(call: ToolExecution, next: Next[PreDecision]) -> PreDecision:
        return Deny("not here") if call.name == "bash" else await next()

    ctx.on(AGENT_STATUS, on_status)
    ctx.on(SESSION_EVENT, on_event)
    ctx.on(AGENT_PRE_STEP, enter)
    ctx.on(TOOLS_PRE_EXECUTE, judge, prepend=True)
    for agent in ctx[AGENTS].list():
        agent.followup(create_user_message("hello"))
