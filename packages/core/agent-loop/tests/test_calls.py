"""The calls of one answer: overlap, order, failure, abort."""

from __future__ import annotations

import anyio
import pytest
from dsh_agent_loop import AgentLoopConfig
from dsh_agent_loop_testkit import Call, TurnEndedError, agent_kit, call_reply
from dsh_cordis import CordisError, Internal
from dsh_llm import create_user_message, text_of
from dsh_session import (
    ASSISTANT_MESSAGE,
    SESSION_EVENT,
    TOOL_CALL,
    TOOL_RESULT,
    TURN_END,
    USER_MESSAGE,
    ByUser,
    ErrorName,
    TurnAborted,
)
from dsh_tools import (
    TOOLS,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    Deny,
    ToolExecution,
    define_tool,
    tool,
)
from msgspec import UNSET, Struct

pytestmark = pytest.mark.anyio


class Bodies:
    """Tools whose bodies wait until a test releases them."""

    def __init__(self):
        self.events = []
        self.doors = {}
        self.started = {}
        self.read = tool(name="read", concurrency_safe=True)(self._body())
        self.write = tool(name="write")(self._body())

    def _body(self):
        async def body(execution: ToolExecution) -> str:
            """Wait to be released."""
            call = execution.call_id
            self.events.append(f"start {call}")
            self.event(self.started, call).set()
            await self.event(self.doors, call).wait()
            self.events.append(f"end {call}")
            return call

        return body

    def event(self, table, call):
        return table.setdefault(call, anyio.Event())

    async def wait_for(self, *calls):
        for call in calls:
            await self.event(self.started, call).wait()

    def release(self, *calls):
        for call in calls:
            self.event(self.doors, call).set()


@pytest.fixture
def bodies():
    return Bodies()


def calls(*names):
    return call_reply(*(Call(name, id=f"c{n}") for n, name in enumerate(names, start=1)))


def logged_calls(kit):
    """`call c1`, `result c1`, ... in the order of the log."""
    out = []
    for event in kit.session.events:
        if TOOL_CALL.of(event):
            out.append(f"call {event.data.call_id}")
        elif TOOL_RESULT.of(event):
            out.append(f"result {event.data.message.source.call_id}")
    return out


def start(kit, text="hi"):
    kit.agent.followup(create_user_message(text))


async def test_safe_calls_all_start_before_any_ends(bodies):
    async with agent_kit([calls("read", "read", "read"), "done"], tools=[bodies.read]) as kit:
        start(kit)
        await bodies.wait_for("c1", "c2", "c3")
        bodies.release("c3", "c2", "c1")
        await kit.agent.when_idle()
        assert bodies.events[:3] == ["start c1", "start c2", "start c3"]
        assert logged_calls(kit) == [
            "call c1",
            "call c2",
            "call c3",
            "result c1",
            "result c2",
            "result c3",
        ]


async def test_an_unsafe_call_runs_alone(bodies):
    bodies.release("c1", "c2", "c3")
    tools = [bodies.read, bodies.write]
    async with agent_kit([calls("read", "write", "read"), "done"], tools=tools) as kit:
        await kit.say("hi")
        assert bodies.events == [f"{what} c{n}" for n in (1, 2, 3) for what in ("start", "end")]
        assert logged_calls(kit) == [
            f"{what} c{n}" for n in (1, 2, 3) for what in ("call", "result")
        ]


async def test_a_freed_place_is_filled_after_ready_results_are_logged(bodies):
    loop = AgentLoopConfig(max_parallel_tool_calls=2)
    reply = calls("read", "read", "read", "read")
    async with agent_kit([reply, "done"], tools=[bodies.read], loop=loop) as kit:
        start(kit)
        await bodies.wait_for("c1", "c2")
        await anyio.wait_all_tasks_blocked()
        assert "start c3" not in bodies.events
        bodies.release("c1")
        await bodies.wait_for("c3")
        assert logged_calls(kit) == ["call c1", "call c2", "result c1", "call c3"]
        bodies.release("c2", "c3", "c4")
        await kit.agent.when_idle()


async def test_a_limit_of_one_is_serial(bodies):
    bodies.release("c1", "c2")
    loop = AgentLoopConfig(max_parallel_tool_calls=1)
    async with agent_kit([calls("read", "read"), "done"], tools=[bodies.read], loop=loop) as kit:
        await kit.say("hi")
        assert logged_calls(kit) == ["call c1", "result c1", "call c2", "result c2"]


async def test_results_wait_for_those_before_them(bodies):
    async with agent_kit([calls("read", "read"), "done"], tools=[bodies.read]) as kit:
        start(kit)
        await bodies.wait_for("c1", "c2")
        bodies.release("c2")
        await anyio.wait_all_tasks_blocked()
        assert logged_calls(kit) == ["call c1", "call c2"]
        bodies.release("c1")
        await kit.agent.when_idle()
        assert logged_calls(kit)[2:] == ["result c1", "result c2"]


async def test_whether_a_call_may_overlap_is_read_again_before_it_starts(bodies):
    safe = [True]
    execute = bodies.read.execute

    class Nothing(Struct):
        """No parameters."""

    changing = define_tool(
        name="changing",
        description="Changes its mind.",
        params=Nothing,
        execute=execute,
        output=str,
        is_concurrency_safe=lambda _args: safe[0],
    )
    loop = AgentLoopConfig(max_parallel_tool_calls=2)
    reply = calls("changing", "changing", "changing")
    async with agent_kit([reply, "done"], tools=[changing], loop=loop) as kit:
        kit.root.on(TOOLS_RESULT, lambda executed: safe.__setitem__(0, False))
        start(kit)
        await bodies.wait_for("c1", "c2")
        bodies.release("c1")
        await anyio.wait_all_tasks_blocked()
        assert "start c3" not in bodies.events
        bodies.release("c2", "c3")
        await kit.agent.when_idle()
        assert bodies.events.index("end c2") < bodies.events.index("start c3")


async def test_policies_see_the_models_order_whatever_settles_first(bodies):
    async with agent_kit([calls("read", "read", "read"), "done"], tools=[bodies.read]) as kit:
        seen = []

        async def pre(execution, proceed):
            seen.append(f"pre {execution.call_id}")
            return await proceed()

        async def post(executed, proceed):
            seen.append(f"post {executed.execution.call_id}")
            return await proceed()

        kit.root.on(TOOLS_PRE_EXECUTE, pre)
        kit.root.on(TOOLS_POST_EXECUTE, post)
        start(kit)
        await bodies.wait_for("c1", "c2", "c3")
        bodies.release("c3")
        await anyio.wait_all_tasks_blocked()
        bodies.release("c2", "c1")
        await kit.agent.when_idle()
        assert seen == [f"{stage} c{n}" for stage in ("pre", "post") for n in (1, 2, 3)]


async def test_denied_and_failing_calls_keep_their_place(bodies):
    bodies.release("c1")
    async with agent_kit([calls("read", "read", "read"), "done"], tools=[bodies.read]) as kit:
        posted = []

        async def pre(execution, proceed):
            if execution.call_id == "c2":
                return Deny("no")
            if execution.call_id == "c3":
                raise CordisError("policy is broken", code="BROKEN")
            return await proceed()

        async def post(executed, proceed):
            posted.append(executed.execution.call_id)
            return await proceed()

        kit.root.on(TOOLS_PRE_EXECUTE, pre)
        kit.root.on(TOOLS_POST_EXECUTE, post)
        await kit.say("hi")
        results = kit.of(TOOL_RESULT)
        assert [r.message.source.call_id for r in results] == ["c1", "c2", "c3"]
        assert [r.message.content[0].is_error for r in results] == [False, True, True]
        assert results[2].error == ErrorName("CordisError", "BROKEN")
        assert posted == ["c1", "c2"]
        assert bodies.events == ["start c1", "end c1"]


async def test_contexts_follow_the_last_result_in_the_models_order():
    @tool(concurrency_safe=True)
    async def context(execution: ToolExecution) -> str:
        """Add a context."""
        execution.defer_context(create_user_message(f"ctx-{execution.call_id}"))
        return "ok"

    async with agent_kit([calls("context", "context"), "done"], tools=[context]) as kit:
        await kit.say("hi")
        log = kit.logged("agent/inbox/spliced", "request/header", "request/context")
        assert log[-7:] == [
            "step/end",
            "step/start",
            "user/message",
            "user/message",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        assert [text_of(m.content) for m in kit.of(USER_MESSAGE)] == ["hi", "ctx-c1", "ctx-c2"]


async def test_a_cancel_pairs_every_call_and_parks_contexts():
    entered = anyio.Event()

    @tool(concurrency_safe=True)
    async def wait(execution: ToolExecution) -> str:
        """Wait for the abort."""
        execution.defer_context(create_user_message("late context"))
        if execution.call_id == "c2":
            entered.set()
        aborted = anyio.Event()
        execution.signal.on_abort(aborted.set)
        await aborted.wait()
        return "stopped"

    loop = AgentLoopConfig(max_parallel_tool_calls=2)
    reply = calls("wait", "wait", "wait", "wait")
    async with agent_kit([reply, "after"], tools=[wait], loop=loop) as kit:
        start(kit)
        await entered.wait()
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert logged_calls(kit) == [
            "call c1",
            "call c2",
            "result c1",
            "result c2",
            "call c3",
            "result c3",
            "call c4",
            "result c4",
        ]
        codes = [result.error.code for result in kit.of(TOOL_RESULT)]
        assert codes == ["ABORTED", "ABORTED", *["ABORTED_BEFORE_DISPATCH"] * 2]
        assert kit.of(TURN_END)[0].reason == TurnAborted(ByUser())
        assert kit.logged()[-2:] == ["step/end", "turn/end"]
        assert len(kit.agent.inbox.next_step) == 2
        assert await kit.say("go on") == "after"
        assert [text_of(m.content) for m in kit.of(USER_MESSAGE)][1:3] == ["late context"] * 2


async def test_a_cancel_before_the_first_call_runs_no_body(bodies):
    async with agent_kit([calls("write"), "after"], tools=[bodies.write]) as kit:

        def cancel(appended):
            if ASSISTANT_MESSAGE.of(appended.event):
                kit.agent.cancel(ByUser())

        remove = kit.root.on(SESSION_EVENT, cancel)
        start(kit)
        await kit.agent.when_idle()
        remove()
        assert bodies.events == []
        assert logged_calls(kit) == ["call c1", "result c1"]
        await kit.say("go on")
        (result,) = kit.adapter.requests[1].messages[2].content
        assert result.is_error


async def test_an_abort_while_policy_thinks_says_that_nothing_was_done(bodies):
    async with agent_kit([calls("write")], tools=[bodies.write]) as kit:

        async def pre(execution, proceed):
            kit.agent.cancel(ByUser())
            return await proceed()

        kit.root.on(TOOLS_PRE_EXECUTE, pre)
        start(kit)
        await kit.agent.when_idle()
        assert kit.of(TOOL_RESULT)[0].error.code == "ABORTED_BEFORE_DISPATCH"
        assert bodies.events == []


async def test_arguments_are_logged_as_sent_and_reach_the_tool_as_data():
    got = []

    @tool
    async def take(a: int = 0) -> str:
        """Take a number."""
        got.append(a)
        return "ok"

    reply = call_reply(
        Call("take", "not json", id="c1"),
        Call("take", "", id="c2"),
        Call("take", '{"a": 2}', id="c3"),
        Call("take", "[" * 5000, id="c4"),
    )
    async with agent_kit([reply, "done"], tools=[take]) as kit:
        await kit.say("hi")
        assert [call.arguments for call in kit.of(TOOL_CALL)][:3] == ["not json", "", '{"a": 2}']
        assert got == [0, 2]
        results = kit.of(TOOL_RESULT)
        assert [r.message.content[0].is_error for r in results] == [True, False, False, True]
        assert results[0].error.code == "INVALID_ARGS"
        assert "not json" in text_of(results[0].message.content[0].content)


async def test_a_result_cites_its_call_and_keeps_the_models_id(bodies):
    bodies.release("c1")
    async with agent_kit([calls("write"), "done"], tools=[bodies.write]) as kit:
        await kit.say("hi")
        (call,) = [e for e in kit.session.events if TOOL_CALL.of(e)]
        (result,) = [e for e in kit.session.events if TOOL_RESULT.of(e)]
        assert result.source_event_seqs == (call.seq,)
        assert result.data.message.content[0].tool_call_id == "c1"
        assert result.data.error is UNSET


async def test_an_unknown_tool_is_answered_with_an_error():
    async with agent_kit([calls("ghost"), "done"]) as kit:
        assert await kit.say("hi") == "done"
        assert kit.of(TOOL_RESULT)[0].error.code == "UNKNOWN_TOOL"


async def test_a_failing_log_waits_for_running_bodies_and_invents_nothing(bodies):
    async with agent_kit([calls("read", "read", "read")], tools=[bodies.read]) as kit:

        def veto(mode, name, args, receiver):
            event = args[0].event if name == "session/event" else None
            if event and TOOL_CALL.of(event) and event.data.call_id == "c3":
                raise ValueError("the log is full")

        kit.root.on(Internal.DISPATCH, veto)
        start(kit)
        await bodies.wait_for("c1", "c2")
        await anyio.wait_all_tasks_blocked()
        assert "turn/end" not in kit.logged()
        bodies.release("c2", "c1")
        await kit.agent.when_idle()
        assert logged_calls(kit) == ["call c1", "call c2"]
        reason = kit.of(TURN_END)[0].reason
        assert (reason.error.code, reason.error.message) == ("UNKNOWN", "the log is full")


async def test_a_failing_body_leaves_its_siblings_alone(bodies):
    @tool(concurrency_safe=True)
    async def fail() -> str:
        """Fail."""
        raise ValueError("broken body")

    async with agent_kit([calls("fail", "read"), "done"], tools=[fail, bodies.read]) as kit:
        start(kit)
        await bodies.wait_for("c2")
        bodies.release("c2")
        await kit.agent.when_idle()
        assert [r.message.content[0].is_error for r in kit.of(TOOL_RESULT)] == [True, False]


async def test_a_tool_in_the_agents_own_scope_is_seen_by_it_alone():
    @tool
    async def mine() -> str:
        """Mine."""
        return "mine"

    async with agent_kit(
        [calls("mine"), "done"], setup=lambda ctx: ctx[TOOLS].register(mine) and None
    ) as kit:
        await kit.say("hi")
        assert [schema.name for schema in kit.adapter.requests[0].tools] == ["mine"]
        assert kit.root[TOOLS].schemas() == ()
        assert not kit.of(TOOL_RESULT)[0].message.content[0].is_error


async def test_a_turn_that_a_tool_cancels_ends_aborted():
    @tool
    async def stop() -> str:
        """Stop."""
        kit.agent.cancel(ByUser())
        return "stopped"

    async with agent_kit([calls("stop")], tools=[stop]) as kit:
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        assert kit.of(TURN_END)[0].reason == TurnAborted(ByUser())
