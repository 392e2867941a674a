"""Whatever the calls, their limit and the order in which they settle: the log is the same shape."""

from __future__ import annotations

import anyio
from dsh_agent_loop import AgentLoopConfig
from dsh_agent_loop_testkit import Call, agent_kit, call_reply
from dsh_llm import create_user_message
from dsh_session import TOOL_CALL, TOOL_RESULT, TURN_END, ByUser, TurnAborted
from dsh_tools import ToolExecution, tool
from hypothesis import given, settings
from hypothesis import strategies as st


class Overlap:
    """Tools that yield to each other a given number of times, and note who ran together."""

    def __init__(self, delays, cancel_at):
        self.delays = delays
        self.cancel_at = cancel_at
        self.running = set()
        self.together = []
        self.cancel = None
        self.safe = tool(name="safe", concurrency_safe=True)(self._body("safe"))
        self.alone = tool(name="alone")(self._body("alone"))

    def _body(self, kind):
        async def body(execution: ToolExecution) -> str:
            """Yield some times."""
            number = int(execution.call_id[1:])
            self.running.add((kind, number))
            for _ in range(self.delays[number]):
                self.together.append(frozenset(self.running))
                await anyio.lowlevel.checkpoint()
            if number == self.cancel_at:
                self.cancel()
            self.running.remove((kind, number))
            return "ok"

        return body


@settings(max_examples=60, deadline=None)
@given(
    calls=st.lists(st.tuples(st.booleans(), st.integers(1, 6)), min_size=1, max_size=7),
    limit=st.integers(1, 4),
    cancel_at=st.one_of(st.none(), st.integers(0, 6)),
)
def test_each_call_has_one_result_in_order_and_overlap_keeps_its_rules(calls, limit, cancel_at):
    overlap = Overlap([delay for _, delay in calls], cancel_at)
    names = ["safe" if safe else "alone" for safe, _ in calls]
    reply = call_reply(*(Call(name, id=f"c{n}") for n, name in enumerate(names)))

    async def run():
        loop = AgentLoopConfig(max_parallel_tool_calls=limit)
        tools = [overlap.safe, overlap.alone]
        async with agent_kit([reply, "done"], tools=tools, loop=loop) as kit:
            overlap.cancel = lambda: kit.agent.cancel(ByUser())
            kit.agent.followup(create_user_message("hi"))
            await kit.agent.when_idle()
            return kit

    kit = anyio.run(run)
    wanted = [f"c{n}" for n in range(len(calls))]
    assert [call.call_id for call in kit.of(TOOL_CALL)] == wanted
    assert [r.message.source.call_id for r in kit.of(TOOL_RESULT)] == wanted
    for group in overlap.together:
        assert len(group) <= limit
        assert len(group) == 1 or all(kind == "safe" for kind, _ in group)
    (end,) = kit.of(TURN_END)
    cancelled = cancel_at is not None and cancel_at < len(calls)
    assert isinstance(end.reason, TurnAborted) == cancelled
