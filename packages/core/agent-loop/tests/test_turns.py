"""How turns open, go on and end."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from dsh_agent import (
    AGENT_ERROR,
    AGENT_INBOX_CLAIMED,
    AGENT_PRE_STEP,
    AGENT_REQUEST,
    AGENT_STATUS,
    AGENT_TURN_STOPPING,
    INBOX_SPLICED,
    Enter,
    Reject,
)
from dsh_agent_loop_testkit import (
    Call,
    TurnEndedError,
    agent_kit,
    assert_no_leaks,
    call_reply,
    capped_reply,
    failed_reply,
)
from dsh_cordis import Internal
from dsh_llm import LlmError, create_user_message, text_of
from dsh_session import (
    SESSION_EVENT,
    STEP_START,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
    TurnBlocked,
    TurnCompleted,
    TurnFailed,
    TurnMaxTokens,
    interrupted_turn_closers,
)
from dsh_system_prompt import SYSTEM_PROMPT
from dsh_tools import ToolExecution, tool

pytestmark = pytest.mark.anyio


def user(text="hi"):
    return create_user_message(text)


def reasons(kit):
    return [end.reason for end in kit.of(TURN_END)]


def texts(messages):
    return [text_of(message.content) for message in messages]


@tool
async def noop() -> str:
    """Do nothing."""
    return "done"


async def test_a_text_turn_is_logged_in_order_and_leaves_nothing_behind():
    async with assert_no_leaks(), agent_kit(["hello"]) as kit:
        assert await kit.say("hi") == "hello"
        assert kit.logged() == [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "request/header",
            "request/context",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
        assert reasons(kit) == [TurnCompleted()]


async def test_a_followup_has_opened_its_turn_when_it_returns():
    async with agent_kit(["hello"]) as kit:
        kit.agent.followup(user())
        assert kit.agent.status == "running"
        assert kit.of(TURN_START)
        assert not kit.agent.inbox.pending
        await kit.agent.when_idle()


async def test_steering_an_idle_agent_opens_one_turn():
    async with agent_kit(["hello"]) as kit:
        kit.agent.steer(user())
        assert kit.agent.status == "running"
        assert len(kit.of(TURN_START)) == 1
        await kit.agent.when_idle()
        assert texts(kit.of(USER_MESSAGE)) == ["hi"]


async def test_three_followups_are_three_turns_of_one_running_interval():
    async with agent_kit(["1", "2", "3"]) as kit:
        statuses = []
        kit.root.on(AGENT_STATUS, lambda p: statuses.append(p.status))
        for text in ("a", "b", "c"):
            kit.agent.followup(user(text))
        await kit.agent.when_idle()
        assert [start.turn for start in kit.of(TURN_START)] == [1, 2, 3]
        assert [texts(r.messages)[::2] for r in kit.adapter.requests] == [
            ["a"],
            ["a", "b"],
            ["a", "b", "c"],
        ]
        assert statuses == ["running", "idle"]


async def test_an_idle_injection_waits_for_the_next_turn():
    async with agent_kit(["hello"]) as kit:
        kit.agent.inject(user("by the way"))
        assert (kit.session.seq, kit.agent.status, kit.adapter.requests) == (1, "idle", [])
        await kit.say("hi")
        assert texts(kit.adapter.requests[0].messages) == ["by the way", "hi"]


async def test_a_rejected_prompt_ends_blocked_and_parks_the_next():
    async with agent_kit(["hello"]) as kit:
        refusing = [True]

        async def listener(pre_step, proceed):
            return Reject() if refusing.pop() else await proceed()

        kit.root.on(AGENT_PRE_STEP, listener)
        kit.agent.followup(user("first"))
        kit.agent.followup(user("second"))
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnBlocked()]
        assert (len(kit.agent.inbox.next_turn), kit.adapter.requests) == (1, [])
        assert not kit.of(USER_MESSAGE)
        refusing[:] = [False, False]
        kit.agent.steer(user("go"))
        await kit.agent.when_idle()
        assert texts(kit.adapter.requests[0].messages) == ["go", "second"]


async def test_a_raising_pre_step_listener_fails_the_turn_and_the_next_send_works():
    async with agent_kit(["hello"]) as kit:
        failures = []
        kit.root.on(AGENT_ERROR, failures.append)

        async def broken(pre_step, proceed):
            raise ValueError("policy is broken")

        remove = kit.root.on(AGENT_PRE_STEP, broken)
        with pytest.raises(TurnEndedError):
            await kit.say("first")
        (reason,) = reasons(kit)
        assert (reason.error.message, reason.error.code) == ("policy is broken", "UNKNOWN")
        assert [(f.turn, f.step, str(f.error)) for f in failures] == [(1, 0, "policy is broken")]
        remove()
        assert await kit.say("second") == "hello"


async def test_what_a_listener_rewrites_is_all_that_log_and_request_hold():
    async with agent_kit(["hello"]) as kit:

        async def rewrite(pre_step, proceed):
            return Enter((user("rewritten"),))

        kit.root.on(AGENT_PRE_STEP, rewrite)
        await kit.say("original")
        assert texts(kit.of(USER_MESSAGE)) == ["rewritten"]
        assert texts(kit.adapter.requests[0].messages) == ["rewritten"]


async def test_an_emptied_first_step_completes_without_a_request_and_stops_the_driver():
    async with agent_kit([]) as kit:

        async def empty(pre_step, proceed):
            return Enter(())

        kit.root.on(AGENT_PRE_STEP, empty)
        kit.agent.followup(user("a"))
        kit.agent.followup(user("b"))
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnCompleted()]
        assert not kit.of(STEP_START)
        assert texts(kit.agent.inbox.next_turn) == ["b"]


async def test_each_step_of_a_tool_turn_is_proposed():
    async with agent_kit([call_reply(Call("noop")), "done"], tools=[noop]) as kit:
        proposed = []

        async def note(pre_step, proceed):
            proposed.append((pre_step.turn, pre_step.step, len(pre_step.messages)))
            return await proceed()

        kit.root.on(AGENT_PRE_STEP, note)
        await kit.say("hi")
        assert proposed == [(1, 1, 1), (1, 2, 0)]


async def test_input_that_comes_after_the_claim_joins_the_next_step_in_order():
    async with agent_kit(["one", "two"]) as kit:

        async def add(pre_step, proceed):
            if pre_step.step == 1:
                kit.agent.inject(user("injected"))
                kit.agent.steer(user("steered"))
            return await proceed()

        kit.root.on(AGENT_PRE_STEP, add)
        assert await kit.say("hi") == "two"
        first, second = kit.adapter.requests
        assert texts(first.messages) == ["hi"]
        assert texts(second.messages) == ["hi", "one", "injected", "steered"]
        assert len(kit.of(TURN_START)) == 1


async def test_steering_from_a_tool_is_logged_in_the_second_step():
    @tool
    async def steer() -> str:
        """Steer."""
        kit.agent.steer(user("more"))
        return "ok"

    async with agent_kit([call_reply(Call("steer")), "done"], tools=[steer]) as kit:
        await kit.say("hi")
        log = kit.logged()
        assert log.index("step/start", 4) < log.index("user/message", 5)
        assert texts(kit.of(USER_MESSAGE)) == ["hi", "more"]


async def test_who_wants_more_steers_while_the_turn_stops():
    async with agent_kit(["1", "2", "3"]) as kit:
        left = ["again", "and again"]

        async def more(stopping):
            await anyio.lowlevel.checkpoint()
            if left:
                kit.agent.steer(user(left.pop(0)))

        kit.root.on(AGENT_TURN_STOPPING, more)
        assert await kit.say("hi") == "3"
        assert len(kit.of(STEP_START)) == 3
        assert len(kit.of(TURN_START)) == 1


async def test_asynchronous_stopping_listeners_finish_before_the_turn_ends():
    async with agent_kit(["hello"]) as kit:
        seen = []

        async def slow(stopping):
            await anyio.wait_all_tasks_blocked()
            seen.append("turn/end" in kit.logged())

        kit.root.on(AGENT_TURN_STOPPING, slow)
        await kit.say("hi")
        assert seen == [False]


async def test_a_raising_stopping_listener_fails_the_turn_only():
    async with agent_kit(["one", "two"]) as kit:

        async def broken(stopping):
            raise ValueError("no")

        remove = kit.root.on(AGENT_TURN_STOPPING, broken)
        with pytest.raises(TurnEndedError):
            await kit.say("first")
        remove()
        assert await kit.say("second") == "two"


async def test_an_unknown_prompt_variable_fails_the_turn_before_any_step():
    async with agent_kit(["hello"]) as kit:
        remove = kit.root[SYSTEM_PROMPT].section("bad", order=1, text="{{nobody}}")
        with pytest.raises(TurnEndedError, match="nobody"):
            await kit.say("first")
        assert not kit.of(STEP_START)
        remove()
        assert await kit.say("second") == "hello"


async def test_a_concluding_tool_ends_the_turn_unless_somebody_steered():
    @tool
    async def finish(execution: ToolExecution, steer: bool = False) -> str:
        """Finish."""
        if steer:
            kit.agent.steer(user("wait"))
        execution.conclude_turn()
        return "finished"

    replies = [
        call_reply(Call("finish")),
        call_reply(Call("finish", {"steer": True}, id="c2")),
        "answered",
    ]
    async with agent_kit(replies, tools=[finish]) as kit:
        await kit.say("one")
        assert len(kit.adapter.requests) == 1
        assert await kit.say("two") == "answered"
        assert len(kit.adapter.requests) == 3
        assert len(kit.of(TURN_START)) == 2


async def test_the_output_limit_marks_its_turn_and_not_the_next():
    async with agent_kit([capped_reply("cut"), "steered", "fresh"]) as kit:

        async def steer(stopping):
            if len(kit.adapter.requests) == 1:
                kit.agent.steer(user("go on"))

        kit.root.on(AGENT_TURN_STOPPING, steer)
        with pytest.raises(TurnEndedError):
            await kit.say("one")
        await kit.say("two")
        assert reasons(kit) == [TurnMaxTokens(), TurnCompleted()]


async def test_a_call_after_a_capped_step_still_gets_its_request():
    replies = [capped_reply("cut"), call_reply(Call("noop")), "seen"]
    async with agent_kit(replies, tools=[noop]) as kit:

        async def steer(stopping):
            if len(kit.adapter.requests) == 1:
                kit.agent.steer(user("go on"))

        kit.root.on(AGENT_TURN_STOPPING, steer)
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        assert len(kit.adapter.requests) == 3
        assert reasons(kit) == [TurnMaxTokens()]


async def test_pending_input_after_a_capped_turn_opens_the_next_at_once():
    async with agent_kit([capped_reply("cut"), "two"]) as kit:
        kit.agent.followup(user("a"))
        kit.agent.followup(user("b"))
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnMaxTokens(), TurnCompleted()]


async def test_a_failed_request_ends_the_turn_with_its_facts():
    async with agent_kit([failed_reply("bad key", code="AUTH", status=401)]) as kit:
        failures = []
        kit.root.on(AGENT_ERROR, failures.append)
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        (reason,) = reasons(kit)
        assert isinstance(reason, TurnFailed)
        assert (reason.error.code, reason.error.status) == ("AUTH", 401)
        assert isinstance(failures[0].error, LlmError)
        assert (failures[0].turn, failures[0].step) == (1, 1)
        assert "assistant/message" not in kit.logged()


async def test_text_that_no_log_can_hold_still_ends_the_turn():
    async with agent_kit(["hello"]) as kit:

        async def broken(pre_step, proceed):
            raise ValueError("bad \ud800 and \0")

        kit.root.on(AGENT_PRE_STEP, broken)
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        assert reasons(kit)[0].error.message == "bad \ufffd and \ufffd"


async def test_a_seeded_agent_goes_on_counting_turns():
    async with agent_kit(["one"]) as first:
        await first.say("hi")
        seed = first.session.events
    async with agent_kit(["two"], seed=seed) as kit:
        await kit.say("again")
        assert [start.turn for start in kit.of(TURN_START)] == [1, 2]


async def test_a_refused_turn_leaves_its_message_pending():
    async with agent_kit(["hello"]) as kit:
        failures = []
        kit.root.on(AGENT_ERROR, failures.append)

        def veto(mode, name, args, receiver):
            if name == "session/event" and TURN_START.of(args[0].event):
                raise ValueError("not now")

        remove = kit.root.on(Internal.DISPATCH, veto)
        kit.agent.followup(user("wait"))
        await kit.agent.when_idle()
        assert kit.logged() == ["agent/inbox/spliced"]
        assert texts(kit.agent.inbox.next_turn) == ["wait"]
        assert len(failures) == 1
        assert kit.agent.status == "idle"
        remove()
        kit.agent.steer(user("now"))
        await kit.agent.when_idle()
        assert texts(kit.adapter.requests[0].messages) == ["now", "wait"]


async def test_a_refused_claim_closes_its_turn():
    async with agent_kit(["waited", "hello"]) as kit:
        is_splice = INBOX_SPLICED.of

        def veto(mode, name, args, receiver):
            if name == "session/event" and args[0].event.seq > 0 and is_splice(args[0].event):
                raise ValueError("not now")

        remove = kit.root.on(Internal.DISPATCH, veto)
        kit.agent.followup(user("wait"))
        await kit.agent.when_idle()
        assert kit.logged() == ["agent/inbox/spliced", "turn/start", "turn/end"]
        remove()
        assert await kit.say("now") == "hello"


async def test_a_refused_turn_end_is_reported_and_stops_the_driver():
    async with agent_kit(["hello"]) as kit:
        failures = []
        kit.root.on(AGENT_ERROR, failures.append)

        def veto(mode, name, args, receiver):
            if name == "session/event" and TURN_END.of(args[0].event):
                raise ValueError("full")

        kit.root.on(Internal.DISPATCH, veto)
        kit.agent.followup(user("a"))
        kit.agent.followup(user("b"))
        await kit.agent.when_idle()
        assert [str(f.error) for f in failures] == ["full"]
        assert texts(kit.agent.inbox.next_turn) == ["b"]


async def test_failing_observers_change_nothing(caplog):
    async with agent_kit(["hello"]) as kit:

        def broken(payload):
            raise ValueError("observer")

        heard = []
        kit.root.on(AGENT_STATUS, broken)
        kit.root.on(AGENT_STATUS, lambda p: heard.append(p.status))
        kit.root.on(SESSION_EVENT, broken)
        assert await kit.say("hi") == "hello"
        assert heard == ["running", "idle"]


async def test_a_message_is_claimed_once_its_turn_is_logged():
    async with agent_kit(["hello"]) as kit:
        seen = []
        kit.root.on(
            AGENT_INBOX_CLAIMED, lambda p: seen.append((p.turn, "turn/start" in kit.logged()))
        )
        await kit.say("hi")
        assert seen == [(1, True)]


async def test_a_wake_opens_a_turn_even_if_its_message_is_gone_by_then():
    async with agent_kit([]) as kit:
        prompt = user()
        kit.root.on(
            AGENT_STATUS,
            lambda p: p.status == "running" and kit.agent.inbox.remove(prompt.id),
        )
        kit.agent.followup(prompt)
        await kit.agent.when_idle()
        assert reasons(kit) == [TurnCompleted()]
        assert kit.adapter.requests == []


async def test_an_idle_listener_may_wake_the_agent_again():
    async with agent_kit(["one", "two"]) as kit:
        left = [user("again")]
        kit.root.on(
            AGENT_STATUS, lambda p: p.status == "idle" and left and kit.agent.followup(left.pop())
        )
        await kit.say("hi")
        assert len(kit.of(TURN_START)) == 2
        assert kit.agent.status == "idle"


async def test_a_stray_cancellation_is_a_failure_of_the_turn_only():
    async with agent_kit(["hello"]) as kit:

        async def broken(pre_step, proceed):
            raise asyncio.CancelledError

        remove = kit.root.on(AGENT_PRE_STEP, broken)
        with pytest.raises(TurnEndedError):
            await kit.say("first")
        assert isinstance(reasons(kit)[0], TurnFailed)
        remove()
        assert await kit.say("second") == "hello"


async def test_a_cancelled_driver_leaves_its_turn_as_a_crash_does():
    entered = anyio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        entered.set()
        await anyio.sleep_forever()
        return "never"

    async with agent_kit([call_reply(Call("hang")), "hello"], tools=[hang]) as kit:
        kit.agent.followup(user())
        await entered.wait()
        (driver,) = [t for t in asyncio.all_tasks() if t.get_name() == "agent kit"]
        driver.cancel()
        await kit.agent.when_idle()
        assert kit.logged()[-1] == "tool/call"
        closers = interrupted_turn_closers(kit.session.events)
        assert [event.type for event in closers] == ["tool/result", "step/end", "turn/end"]


@pytest.mark.parametrize("key", [AGENT_PRE_STEP, AGENT_REQUEST])
async def test_a_listener_that_forgets_its_answer_is_told_what_to_return(key):
    async with agent_kit(["hello"]) as kit:

        async def forgetful(payload, proceed):
            await proceed()

        kit.root.on(key, forgetful)
        with pytest.raises(TurnEndedError, match=f"{key.name} returned None"):
            await kit.say("hi")
