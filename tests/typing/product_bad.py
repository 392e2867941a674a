"""Every line that is marked BAD is a mistake that the type checker has to catch."""

from __future__ import annotations

from dsh_agent import AGENT_PRE_STEP, AGENT_STATUS, AGENTS, AgentStatusChanged, PreStep
from dsh_cordis import Context, Next
from dsh_llm import create_user_message
from dsh_session import TURN_START, USER_MESSAGE, Session, TurnStart
from dsh_tools import TOOLS, TOOLS_PRE_EXECUTE, Deny, PreDecision, ToolExecution
from product_good import COUNTED, Config, Counted


def apply(ctx: Context, config: Config, session: Session) -> None:
    def wrong_payload(step: PreStep) -> None: ...

    def not_async(call: ToolExecution, next: Next[PreDecision]) -> PreDecision:
        return Deny("never")

    async def wrong_decision(step: PreStep, next: Next[PreDecision]) -> PreDecision:
        return await next()

    async def no_next(call: ToolExecution) -> PreDecision:
        return Deny("never")

    ctx.on(AGENT_STATUS, wrong_payload)  # BAD
    ctx.on(TOOLS_PRE_EXECUTE, not_async)  # BAD
    ctx.on(AGENT_PRE_STEP, wrong_decision)  # BAD
    ctx.on(TOOLS_PRE_EXECUTE, no_next)  # BAD
    ctx.emit(AGENT_PRE_STEP, PreStep)  # BAD
    ctx[TOOLS].registr(config)  # BAD
    ctx[TOOLS].register("a tool")  # BAD
    ctx[AGENTS].list()[0].followup("hello")  # BAD
    session.append(TURN_START, Counted(1))  # BAD
    session.append(COUNTED, Counted(1), surface_op="append")  # BAD
    session.append(USER_MESSAGE, create_user_message("hi"))  # BAD
    session.append(USER_MESSAGE, TurnStart(1), surface_op="append")  # BAD
    config.limit = 4  # BAD
    print(config.limits)  # BAD
    AgentStatusChanged(ctx[AGENTS].list()[0], "busy")  # BAD
