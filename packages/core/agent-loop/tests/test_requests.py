"""What a model is asked, and what the log keeps of it."""

from __future__ import annotations

import anyio
import msgspec
import pytest
from dsh_agent import (
    AGENT_REQUEST,
    AGENT_REQUEST_ERROR,
    AgentOptions,
    ModelSelection,
    Retry,
    SelectionState,
    install_model_selection,
)
from dsh_agent_loop_testkit import (
    Call,
    ScriptedAdapter,
    TurnEndedError,
    agent_kit,
    call_reply,
    capped_reply,
    failed_reply,
    text_reply,
)
from dsh_llm import (
    LLM,
    LLM_STREAM,
    AdapterDefaults,
    Effort,
    MaxTokens,
    ModelInfo,
    NormalRetry,
    ReasoningInfo,
    Stop,
    TextDelta,
    Usage,
    UsageChunk,
    create_user_message,
    text_of,
)
from dsh_session import (
    ASSISTANT_CHUNK,
    ASSISTANT_MESSAGE,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    SESSION_EVENT,
    STEP_START,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
    ByUser,
    TurnAborted,
)
from dsh_system_prompt import SystemPromptConfig
from dsh_tools import tool
from msgspec import UNSET

pytestmark = pytest.mark.anyio


@tool
async def noop() -> str:
    """Do nothing."""
    return "done"


def info(model, **facts):
    return ModelInfo(provider="scripted", id=model, name=model, **facts)


def listen(kit, change):
    """Let `change(config)` decide about every request's configuration."""

    async def listener(step, proceed):
        return change(await proceed())

    return kit.root.on(AGENT_REQUEST, listener)


def with_(**fields):
    return lambda config: msgspec.structs.replace(config, **fields)


async def test_requests_of_a_turn_extend_each_other_under_one_header():
    replies = [call_reply(Call("noop")), call_reply(Call("noop", id="c2")), "done"]
    async with agent_kit(replies, tools=[noop]) as kit:
        await kit.say("hi")
        one, two, three = (request.messages for request in kit.adapter.requests)
        assert two[: len(one)] == one
        assert three[: len(two)] == two
        assert [header.reason for header in kit.of(REQUEST_HEADER)] == ["initial"]


async def test_a_listener_names_another_model_and_cannot_change_its_seed():
    async with agent_kit(["hello"]) as kit:
        seeds = []

        def change(config):
            seeds.append(config)
            return with_(model="other")(config)

        listen(kit, change)
        await kit.say("hi")
        assert kit.adapter.requests[0].config.model == "other"
        assert kit.of(REQUEST_HEADER)[0].header.config.model == "other"
        with pytest.raises(AttributeError):
            seeds[0].model = "mutated"


async def test_an_adapters_default_is_marked_and_does_not_stick():
    efforts = ReasoningInfo((Effort("high", "High"), Effort("max", "Max")), "high")
    async with agent_kit(["1", "2", "3"], models=[info("scripted-1", reasoning=efforts)]) as kit:
        await kit.say("one")
        remove = listen(kit, with_(reasoning_effort="max"))
        await kit.say("two")
        remove()
        await kit.say("three")
        first, second = kit.of(REQUEST_HEADER)
        assert (first.reason, second.reason) == ("initial", "change")
        assert first.header.config.reasoning_effort == "high"
        assert first.header.adapter_defaults == AdapterDefaults(reasoning_effort=True)
        assert second.header.adapter_defaults is UNSET
        assert kit.adapter.requests[2].config.reasoning_effort == "max"


async def test_a_default_limit_follows_the_model_and_an_explicit_one_stays():
    models = [info("scripted-1", default_max_tokens=256000), info("m2", default_max_tokens=8192)]
    async with agent_kit(["1", "2", "3"], models=models) as kit:
        await kit.say("one")
        listen(kit, with_(model="m2"))
        await kit.say("two")
        assert [r.config.max_tokens for r in kit.adapter.requests] == [256000, 8192]
    options = AgentOptions(provider="scripted", model="scripted-1", max_tokens=4096)
    async with agent_kit(["1", "2"], models=models, options=options) as kit:
        await kit.say("one")
        listen(kit, with_(model="m2"))
        await kit.say("two")
        assert [r.config.max_tokens for r in kit.adapter.requests] == [4096, 4096]


async def test_a_new_agent_on_an_old_log_says_resume_and_extends_the_old_request():
    async with agent_kit(["one"]) as old:
        await old.say("hi")
        seed, before = old.session.events, old.adapter.requests[0]
    async with agent_kit(["two"], seed=seed) as kit:
        await kit.say("again")
        request = kit.adapter.requests[0]
        assert [header.reason for header in kit.of(REQUEST_HEADER)] == ["initial", "resume"]
        assert request.system == before.system
        assert request.messages[: len(before.messages)] == before.messages


async def test_a_resumed_effort_is_kept_for_its_own_route_only():
    efforts = ReasoningInfo((Effort("high", "High"), Effort("max", "Max")))
    models = [info("scripted-1", reasoning=efforts), info("m2", reasoning=efforts)]
    async with agent_kit(["one"], models=models) as old:
        listen(old, with_(reasoning_effort="max"))
        await old.say("hi")
        seed = old.session.events
    async with agent_kit(["two"], seed=seed, models=models) as kit:
        await kit.say("again")
        assert kit.adapter.requests[0].config.reasoning_effort == "max"
    other = AgentOptions(provider="scripted", model="m2")
    async with agent_kit(["two"], seed=seed, models=models, options=other) as kit:
        await kit.say("again")
        assert kit.adapter.requests[0].config.reasoning_effort is UNSET


async def test_a_models_capacity_is_logged_when_it_changes():
    async with agent_kit(["1", "2", "3"], models=[info("scripted-1", context_window=64000)]) as kit:
        await kit.say("one")
        await kit.say("two")
        listen(kit, with_(model="unknown"))
        await kit.say("three")
        assert [(c.model, c.context_window) for c in kit.of(REQUEST_CONTEXT)] == [
            ("scripted-1", 64000),
            ("unknown", UNSET),
        ]


async def test_an_agent_without_a_model_fails_its_turn_by_name():
    async with agent_kit(options=AgentOptions()) as kit:
        with pytest.raises(TurnEndedError, match="'kit' has no model"):
            await kit.say("hi")


async def test_a_route_that_no_adapter_knows_may_belong_to_a_stream_listener():
    async def answers(options, proceed):
        async def stream():
            for chunk in text_reply("from a listener"):
                yield chunk

        return stream()

    options = AgentOptions(provider="elsewhere", model="m")
    async with agent_kit(options=options) as kit:
        kit.root.on(LLM_STREAM, answers)
        assert await kit.say("hi") == "from a listener"


async def test_an_unsupported_effort_fails_the_turn_and_is_no_case_for_recovery():
    async with agent_kit(["hello"], models=[info("scripted-1")]) as kit:
        asked = []

        async def recover(failed, proceed):
            asked.append(failed)
            return await proceed()

        kit.root.on(AGENT_REQUEST_ERROR, recover)
        listen(kit, with_(reasoning_effort="high"))
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        assert kit.of(TURN_END)[0].reason.error.code == "UNSUPPORTED_REASONING_EFFORT"
        assert (asked, kit.of(REQUEST_HEADER)) == ([], [])


async def test_retries_stay_in_their_step_and_cite_the_last_attempt_only():
    def broken(word):
        return [TextDelta(0, word), *failed_reply("busy", code="SERVER", status=503)]

    async with agent_kit([broken("a"), broken("b"), "good"]) as kit:
        seen = []

        async def recover(failed, proceed):
            seen.append((failed.turn, failed.step, failed.failure.status))
            assert failed.provider == "scripted"
            assert isinstance(failed.retry_policy, NormalRetry)
            return Retry()

        kit.root.on(AGENT_REQUEST_ERROR, recover)
        assert await kit.say("hi") == "good"
        assert seen == [(1, 1, 503), (1, 1, 503)]
        assert len(kit.of(STEP_START)) == 1
        (message,) = [e for e in kit.session.events if ASSISTANT_MESSAGE.of(e)]
        chunks = [e.seq for e in kit.session.events if ASSISTANT_CHUNK.of(e)]
        assert message.source_event_seqs == tuple(chunks[4:])
        assert [len(r.messages) for r in kit.adapter.requests] == [1, 1, 1]


async def test_a_raising_recovery_fails_the_turn():
    async with agent_kit([failed_reply("busy")]) as kit:

        async def recover(failed, proceed):
            raise ValueError("recovery is broken")

        kit.root.on(AGENT_REQUEST_ERROR, recover)
        with pytest.raises(TurnEndedError, match="recovery is broken"):
            await kit.say("hi")


async def test_an_abort_beats_a_retry():
    async with agent_kit([failed_reply("busy"), "never"]) as kit:

        async def recover(failed, proceed):
            kit.agent.cancel(ByUser())
            return Retry()

        kit.root.on(AGENT_REQUEST_ERROR, recover)
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        assert kit.of(TURN_END)[0].reason == TurnAborted(ByUser())
        assert len(kit.adapter.requests) == 1


async def test_an_empty_answer_is_logged_and_is_no_message():
    async with agent_kit([""], prompt=SystemPromptConfig(include_harness_identity=False)) as kit:
        assert await kit.say("hi") == ""
        (answer,) = kit.of(ASSISTANT_MESSAGE)
        assert answer.message.content == ()
        assert [m.role for m in kit.session.derive_messages()] == ["user"]
        (header,) = [e for e in kit.session.events if REQUEST_HEADER.of(e)]
        assert "system" not in msgspec.json.decode(header.raw)["header"]


async def test_usage_stands_on_the_message():
    usage = Usage(input_tokens=3, output_tokens=1)
    chunks = text_reply("hello")
    async with agent_kit([[*chunks[:-1], UsageChunk(usage), chunks[-1]]]) as kit:
        await kit.say("hi")
        assert kit.of(ASSISTANT_MESSAGE)[0].usage == usage


async def test_an_injection_while_asking_joins_the_next_request():
    async with agent_kit(["one", "two"]) as kit:
        left = [create_user_message("late")]

        async def inject(step, proceed):
            if left:
                kit.agent.inject(left.pop())
            return await proceed()

        kit.root.on(AGENT_REQUEST, inject)
        await kit.say("hi")
        assert [text_of(m.content) for m in kit.adapter.requests[1].messages] == [
            "hi",
            "one",
            "late",
        ]


async def test_a_listener_that_changes_the_messages_fails_the_turn():
    async with agent_kit(["hello"]) as kit:

        async def tamper(options, proceed):
            options.messages = ()
            return await proceed()

        kit.root.on(LLM_STREAM, tamper)
        with pytest.raises(TurnEndedError):
            await kit.say("hi")


async def test_every_request_can_be_rebuilt_from_the_log_before_its_first_chunk():
    replies = [call_reply(Call("noop")), failed_reply("busy"), "done", "again"]
    async with agent_kit(replies, tools=[noop]) as kit:

        async def retry(failed, proceed):
            return Retry()

        kit.root.on(AGENT_REQUEST_ERROR, retry)
        known = []
        kit.root.on(
            LLM_STREAM,
            lambda options, proceed: (
                known.append((kit.session.derive_messages(), kit.session.request_header())),
                proceed(),
            )[1],
        )
        await kit.say("hi")
        await kit.say("and?")
        assert len(known) == 4
        for request, (messages, header) in zip(kit.adapter.requests, known, strict=True):
            assert request.messages == messages
            assert request.config == header.config
            assert request.system == header.system
            assert request.tools == header.tools


async def test_a_swapped_adapter_does_not_take_over_a_prepared_request():
    async with agent_kit(["original"]) as kit:
        other = ScriptedAdapter(["other"])

        async def swap(options, proceed):
            registered[0]()
            kit.root[LLM].register_adapter(["mine"], other)
            return await proceed()

        registered = [kit.root[LLM].register_adapter(["mine"], kit.adapter)]
        listen(kit, with_(provider="mine"))
        remove = kit.root.on(LLM_STREAM, swap)
        assert await kit.say("hi") == "original"
        remove()
        assert await kit.say("again") == "other"


async def test_a_step_uses_the_model_its_prompt_was_assembled_for():
    state = SelectionState(ModelSelection(provider="alpha", model="a1", reasoning_effort="high"))
    efforts = ReasoningInfo((Effort("high", "High"),))
    models = [
        ModelInfo(provider="alpha", id="a1", name="A", reasoning=efforts),
        ModelInfo(provider="beta", id="b1", name="B", reasoning=efforts),
    ]
    prompt = SystemPromptConfig(persona="on {{provider}} {{model}}")
    async with agent_kit(
        ["1", "2"],
        models=models,
        prompt=prompt,
        setup=lambda ctx: install_model_selection(ctx, state) and None,
    ) as kit:
        kit.root[LLM].register_adapter(["alpha", "beta"], kit.adapter)

        async def switch(step, proceed):
            state.current = ModelSelection(provider="beta", model="b1")
            return await proceed()

        kit.root.on(AGENT_REQUEST, switch, prepend=True)
        await kit.say("one")
        await kit.say("two")
        configs = [r.config for r in kit.adapter.requests]
        assert [(c.provider, c.model, c.reasoning_effort) for c in configs] == [
            ("alpha", "a1", "high"),
            ("beta", "b1", UNSET),
        ]
        assert [r.system.rpartition("\n")[2] for r in kit.adapter.requests] == [
            "on alpha a1",
            "on beta b1",
        ]


async def test_an_agent_without_a_selection_keeps_its_options():
    async with agent_kit(
        ["1"], setup=lambda ctx: install_model_selection(ctx, SelectionState()) and None
    ) as kit:
        await kit.say("one")
        assert kit.adapter.requests[0].config.model == "scripted-1"


async def test_a_capped_answer_loses_its_calls_and_runs_no_tool():
    reply = call_reply(Call("noop"), text="so far", finish=MaxTokens())
    async with agent_kit([reply], tools=[noop]) as kit:
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        (answer,) = kit.of(ASSISTANT_MESSAGE)
        assert text_of(answer.message.content) == "so far"
        assert len(answer.message.content) == 1
        assert "tool/call" not in kit.logged()


async def test_calls_run_although_the_model_said_stop():
    replies = [call_reply(Call("noop"), text="I look", finish=Stop()), "seen"]
    async with agent_kit(replies, tools=[noop]) as kit:
        assert await kit.say("hi") == "seen"
        result = kit.adapter.requests[1].messages[-1].content[0]
        assert (result.tool_call_id, text_of(result.content)) == ("c1", "done")


async def test_a_stream_that_never_waits_lets_other_tasks_run():
    chunks = [TextDelta(0, "x")] * 1000
    async with agent_kit([[*chunks, *text_reply("")]]) as kit:
        turns = 0

        async def neighbour():
            nonlocal turns
            while kit.agent.status == "running":
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            kit.agent.followup(create_user_message("hi"))
            group.start_soon(neighbour)
            await kit.agent.when_idle()
        assert turns >= 10


async def test_each_chunk_is_logged_before_the_next_is_asked_for():
    async with agent_kit([]) as kit:
        counts = []

        async def stream(_options):
            for chunk in text_reply("a b c"):
                counts.append(len(kit.of(ASSISTANT_CHUNK)))
                yield chunk

        kit.adapter.add(stream)
        await kit.say("hi")
        assert counts == list(range(6))


async def test_the_request_is_frozen_and_carries_its_session():
    async with agent_kit(["hello"]) as kit:
        await kit.say("hi")
        (request,) = kit.adapter.requests
        assert request.session_id == "kit"
        assert request.purpose == "loop"
        with pytest.raises(AttributeError):
            request.system = "mine"


async def test_an_observer_that_fails_on_every_event_stops_nothing():
    async with agent_kit(["hello"]) as kit:

        async def broken(appended):
            raise ValueError("observer")

        kit.root.on(SESSION_EVENT, broken)
        assert await kit.say("hi") == "hello"
        assert len(kit.of(TURN_START)) == len(kit.of(USER_MESSAGE)) == 1


async def test_the_output_limit_of_an_empty_answer_is_kept():
    async with agent_kit([capped_reply("")]) as kit:
        with pytest.raises(TurnEndedError):
            await kit.say("hi")
        assert kit.of(ASSISTANT_MESSAGE)[0].message.content == ()
