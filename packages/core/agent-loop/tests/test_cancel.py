"""What a cancel stops, what it keeps, and what runs after it."""

from __future__ import annotations

import anyio
import pytest
from dsh_agent import (
    AGENT_ERROR,
    AGENT_PRE_STEP,
    AGENT_REQUEST,
    AGENT_STATUS,
    AGENT_TURN_STOPPING,
    INBOX_SPLICED,
)
from dsh_agent_loop_testkit import Call, agent_kit, assert_no_leaks, call_reply, text_reply
from dsh_llm import TextDelta, ToolCallDelta, Usage, UsageChunk, create_user_message, text_of
from dsh_session import (
    ASSISTANT_CHUNK,
    ASSISTANT_MESSAGE,
    SESSION_EVENT,
    STEP_START,
    TURN_END,
    TURN_START,
    ByDisposal,
    ByParent,
    ByUser,
    TurnAborted,
    TurnCompleted,
)
from dsh_system_prompt import SYSTEM_PROMPT_ASSEMBLE
from dsh_tools import ToolExecution, tool

pytestmark = pytest.mark.anyio


def user(text="hi"):
    return create_user_message(text)


def reasons(kit):
    return [end.reason for end in kit.of(TURN_END)]


class Hanging:
    """A reply that begins, and then waits for the abort."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.begun = anyio.Event()
        self.closed = False

    async def __call__(self, options):
        return self.stream(options)

    async def stream(self, options):
        try:
            for chunk in self.chunks:
                yield chunk
            self.begun.set()
            async with options.signal.scope():
                await anyio.sleep_forever()
        finally:
            self.closed = True


async def hang(kit, reply):
    kit.agent.followup(user())
    await reply.begun.wait()


async def test_an_idle_cancel_drops_what_is_parked_and_arms_nothing():
    async with agent_kit(["hello"]) as kit:
        kit.agent.inject(user("parked"))
        kit.agent.cancel(ByUser())
        assert kit.of(INBOX_SPLICED)[-1].outcome == "canceled"
        assert await kit.say("hi") == "hello"
        assert [text_of(m.content) for m in kit.adapter.requests[0].messages] == ["hi"]


async def test_a_cancel_drops_the_queue_of_a_hanging_turn():
    async with assert_no_leaks(), agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        kit.agent.followup(user("tail"))
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser())]
        assert not kit.agent.inbox.pending
        assert len(kit.adapter.requests) == 1
        assert reply.closed


async def test_a_kept_queue_waits_for_the_next_send():
    async with agent_kit([reply := Hanging(), "tail ran", "sent ran"]) as kit:
        await hang(kit, reply)
        kit.agent.followup(user("tail"))
        kit.agent.cancel(ByUser(), keep_inbox=True)
        await kit.agent.when_idle()
        assert len(kit.adapter.requests) == 1
        kit.agent.followup(user("go"))
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser()), TurnCompleted(), TurnCompleted()]


async def test_what_is_sent_after_the_abort_runs_by_itself():
    async with agent_kit([reply := Hanging(), "B ran"]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByUser(), keep_inbox=True)
        kit.agent.steer(user("B"))
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser()), TurnCompleted()]
        assert kit.agent.status == "idle"


async def test_a_plain_cancel_before_the_turn_ended_takes_that_back():
    async with agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByUser(), keep_inbox=True)
        kit.agent.followup(user("B"))
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser())]
        assert not kit.agent.inbox.pending


async def test_removing_the_late_message_takes_its_wake_back():
    async with agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByUser(), keep_inbox=True)
        kit.agent.followup(late := user("B"))
        kit.agent.inbox.remove(late.id)
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser())]


async def test_an_abort_callback_may_send_what_runs_next():
    async with agent_kit([reply := Hanging(), "next"]) as kit:

        async def watch(pre_step, proceed):
            if pre_step.turn == 1:
                pre_step.signal.on_abort(lambda: kit.agent.followup(user("next")))
            return await proceed()

        kit.root.on(AGENT_PRE_STEP, watch)
        await hang(kit, reply)
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser()), TurnCompleted()]


async def test_a_cancel_right_after_two_sends_ends_one_turn_without_a_step():
    async with agent_kit([]) as kit:
        kit.agent.followup(user("a"))
        kit.agent.followup(user("b"))
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert len(kit.of(TURN_START)) == 1
        assert not kit.of(STEP_START)
        assert reasons(kit) == [TurnAborted(ByUser())]


async def test_a_cancel_from_a_running_listener_opens_no_turn():
    async with agent_kit(["hello"]) as kit:
        remove = kit.root.on(
            AGENT_STATUS, lambda p: p.status == "running" and kit.agent.cancel(ByUser())
        )
        kit.agent.followup(user())
        await kit.agent.when_idle()
        assert not kit.of(TURN_START)
        remove()
        assert await kit.say("again") == "hello"


async def test_a_cancel_at_the_step_start_closes_the_step_without_a_request():
    async with agent_kit([]) as kit:

        def cancel(appended):
            if STEP_START.of(appended.event):
                kit.agent.cancel(ByUser())

        kit.root.on(SESSION_EVENT, cancel)
        kit.agent.followup(user())
        await kit.agent.when_idle()
        assert kit.logged()[-2:] == ["step/end", "turn/end"]
        assert kit.adapter.requests == []


async def test_the_first_cause_wins():
    async with agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByParent())
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByParent())]


async def test_pending_steering_is_dropped_and_never_becomes_a_turn():
    async with agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        kit.agent.steer(user("steer"))
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert len(kit.of(TURN_START)) == 1


async def waits(signal):
    async with signal.scope():
        await anyio.sleep_forever()


@pytest.mark.parametrize("where", ["pre-step", "assemble", "request", "stopping", "tool"])
async def test_waits_of_every_stage_end_with_the_signal(where):
    entered = anyio.Event()

    async def wait(signal):
        entered.set()
        await waits(signal)

    @tool
    async def slow(execution: ToolExecution) -> str:
        """Wait."""
        await wait(execution.signal)
        return "never"

    replies = [call_reply(Call("slow"))] if where == "tool" else ["hello"]
    async with agent_kit(replies, tools=[slow]) as kit:
        failures = []
        kit.root.on(AGENT_ERROR, failures.append)

        async def stage(payload, *_):
            await wait(payload.context.signal if where == "assemble" else payload.signal)

        key = {
            "pre-step": AGENT_PRE_STEP,
            "assemble": SYSTEM_PROMPT_ASSEMBLE,
            "request": AGENT_REQUEST,
            "stopping": AGENT_TURN_STOPPING,
        }.get(where)
        if key is not None:
            kit.root.on(key, stage)
        kit.agent.followup(user())
        await entered.wait()
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser())]
        assert failures == []


async def test_one_signal_spans_a_turn_and_another_the_next():
    async with agent_kit(["one", "two"]) as kit:
        signals = {}

        def note(stage, turn, signal):
            signals.setdefault(turn, {})[stage] = signal

        async def pre(payload, proceed):
            note("pre", payload.turn, payload.signal)
            return await proceed()

        async def request(payload, proceed):
            note("request", payload.turn, payload.signal)
            return await proceed()

        async def stopping(payload):
            note("stopping", payload.turn, payload.signal)

        kit.root.on(AGENT_PRE_STEP, pre)
        kit.root.on(AGENT_REQUEST, request)
        kit.root.on(AGENT_TURN_STOPPING, stopping)
        await kit.say("one")
        await kit.say("two")
        note("stream", 1, kit.adapter.requests[0].signal)
        assert len(set(map(id, signals[1].values()))) == 1
        assert len(signals[1]) == 4
        assert signals[2]["pre"] is not signals[1]["pre"]


async def test_what_was_read_of_a_stopped_answer_is_kept():
    usage = UsageChunk(Usage(input_tokens=5))
    reply = Hanging(usage, TextDelta(0, "par"), TextDelta(0, "tial"))
    async with agent_kit([reply, "after"]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        (event,) = [e for e in kit.session.events if ASSISTANT_MESSAGE.of(e)]
        chunks = tuple(e.seq for e in kit.session.events if ASSISTANT_CHUNK.of(e))
        assert event.data.interrupted is True
        assert event.data.usage == usage.usage
        assert text_of(event.data.message.content) == "partial"
        assert event.source_event_seqs == chunks
        await kit.say("go on")
        assert text_of(kit.adapter.requests[1].messages[1].content) == "partial"


async def test_half_a_call_is_no_message():
    reply = Hanging(ToolCallDelta(0, "c1", "slow", '{"a'))
    async with agent_kit([reply]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByUser())
        await kit.agent.when_idle()
        assert not kit.of(ASSISTANT_MESSAGE)
        assert kit.logged()[-2:] == ["step/end", "turn/end"]


async def test_chunks_after_the_abort_are_not_logged():
    async with agent_kit([text_reply("one two three four")]) as kit:

        def cancel(appended):
            if ASSISTANT_CHUNK.of(appended.event) and len(kit.of(ASSISTANT_CHUNK)) == 3:
                kit.agent.cancel(ByUser())

        kit.root.on(SESSION_EVENT, cancel)
        kit.agent.followup(user())
        await kit.agent.when_idle()
        assert len(kit.of(ASSISTANT_CHUNK)) == 3
        assert text_of(kit.of(ASSISTANT_MESSAGE)[0].message.content) == "one two"


async def test_a_cancel_while_an_event_is_published_stops_although_the_queue_stays():
    async with agent_kit(["hello"]) as kit:

        def cancel(appended):
            if STEP_START.of(appended.event):
                kit.agent.cancel(ByUser())

        kit.root.on(SESSION_EVENT, cancel)
        kit.agent.followup(user("a"))
        kit.agent.followup(user("b"))
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser())]
        assert len(kit.agent.inbox.next_turn) == 1


async def test_a_disposal_wakes_nothing_and_keeps_an_earlier_cause():
    async with agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        kit.agent.cancel(ByUser(), keep_inbox=True)
        kit.agent.followup(user("late"))
        await kit.handle.dispose()
        assert reasons(kit) == [TurnAborted(ByUser())]
        assert len(kit.adapter.requests) == 1


async def test_a_wake_after_the_disposal_began_makes_no_request():
    async with agent_kit([reply := Hanging()]) as kit:
        await hang(kit, reply)
        async with anyio.create_task_group() as group:
            group.start_soon(kit.handle.dispose)
            await anyio.lowlevel.checkpoint()
            kit.agent.followup(user("late"))
        assert reasons(kit) == [TurnAborted(ByDisposal())]
        assert len(kit.adapter.requests) == 1


async def test_work_that_ignores_the_signal_is_awaited():
    door = anyio.Event()
    entered = anyio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore the signal."""
        entered.set()
        await door.wait()
        return "done anyway"

    async with agent_kit([call_reply(Call("stubborn"))], tools=[stubborn]) as kit:
        kit.agent.followup(user())
        await entered.wait()
        kit.agent.cancel(ByUser())
        await anyio.wait_all_tasks_blocked()
        assert kit.agent.status == "running"
        door.set()
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnAborted(ByUser())]
