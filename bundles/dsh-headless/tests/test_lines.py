"""Lines and outcome, from logs that a real agent wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsh_agent_loop_testkit import (
    AgentKit,
    Call,
    agent_kit,
    call_reply,
    capped_reply,
    failed_reply,
)
from dsh_headless._lines import LineWriter, encode_line, usage_line
from dsh_headless._outcome import Outcome, fold_outcome
from dsh_llm import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningBlock,
    ReasoningDelta,
    Stop,
    TextBlock,
    TextDelta,
    Usage,
    UsageChunk,
    create_user_message,
)
from dsh_tools import tool
from msgspec import UNSET, to_builtins

pytestmark = pytest.mark.anyio


@tool
async def speak(word: str) -> str:
    """Say a word."""
    return word


def lines(kit: AgentKit) -> list[dict[str, Any]]:
    """Every line of the kit's session, as a reader decodes it."""
    writer = LineWriter()
    encoded = [encode_line(line) for event in kit.session.events for line in writer.lines(event)]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in encoded)
    return [json.loads(line) for line in encoded]


def inputs(kit: AgentKit) -> list[object]:
    return [line["input"] for line in lines(kit) if line["type"] == "tool_call"]


async def told(kit: AgentKit, text: str = "go") -> Outcome:
    """Send a task, wait for the end however it comes, fold it."""
    start = kit.session.seq
    kit.agent.followup(create_user_message(text))
    await kit.agent.when_idle()
    return fold_outcome(kit.session.events[start:])


def thinking(text: str, answer: str, usage: Usage | None = None) -> list[Any]:
    chunks: list[Any] = [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, text),
        BlockEnd(0, ReasoningBlock(text)),
        BlockStart(1, "text"),
        TextDelta(1, answer),
        BlockEnd(1, TextBlock(answer)),
    ]
    if usage is not None:
        chunks.append(UsageChunk(usage))
    return [*chunks, Finish(Stop())]


async def test_reasoning_comes_before_text_and_usage_with_the_end_of_its_step() -> None:
    usage = Usage(input_tokens=5, output_tokens=7, cache_read_tokens=11, reasoning_tokens=2)
    async with agent_kit([thinking("hm", "yes", usage)]) as kit:
        await kit.say("go")
        told_lines = lines(kit)
    assert told_lines[2:5] == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "yes"},
        {
            "type": "status",
            "phase": "step_end",
            "turn": 1,
            "step": 1,
            "usage": {
                "inputTokens": 5,
                "cacheReadTokens": 11,
                "outputTokens": 7,
                "reasoningTokens": 2,
                "totalTokens": 23,
            },
        },
    ]


async def test_a_step_without_usage_does_not_show_that_of_the_step_before() -> None:
    first = [*call_reply(Call("speak", {"word": "a"}))]
    first.insert(-1, UsageChunk(Usage(input_tokens=1)))
    async with agent_kit([first, "done"], tools=[speak]) as kit:
        await kit.say("go")
        ends = [line for line in lines(kit) if line.get("phase") == "step_end"]
    assert [end.get("usage") for end in ends] == [{"inputTokens": 1, "totalTokens": 1}, None]


def test_the_total_is_the_sum_of_the_parts_that_are_known() -> None:
    def shown(usage: Usage) -> object:
        return to_builtins(usage_line(usage))

    assert usage_line(UNSET) is UNSET
    assert shown(Usage()) == {}
    assert shown(Usage(reasoning_tokens=3)) == {"reasoningTokens": 3}
    assert shown(Usage(output_tokens=0)) == {"outputTokens": 0, "totalTokens": 0}
    assert shown(Usage(cache_read_tokens=2, cache_write_tokens=9)) == {
        "cacheReadTokens": 2,
        "totalTokens": 2,
    }


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ('{"word": "a"}', {"word": "a"}),
        ('{\n  "word":\n  "a"\n}', {"word": "a"}),
        ("", {}),
        ("{nonsense", "{nonsense"),
        ("[1]", "[1]"),
        ("null", "null"),
        ('{"word": "\\ud800"}', '{"word": "\\ud800"}'),
        ("[" * 5000, "[" * 5000),
        ('{"word": ' + "[" * 5000, '{"word": ' + "[" * 5000),
        ('{"word": 123456789012345678901234567890}', {"word": 123456789012345678901234567890}),
    ],
)
async def test_input_is_the_object_that_was_sent_or_else_its_text(raw: str, shown: object) -> None:
    async with agent_kit([call_reply(Call("speak", raw)), "done"], tools=[speak]) as kit:
        await kit.say("go")
        assert inputs(kit) == [shown]


async def test_a_failed_call_is_an_error_and_a_result_joins_its_texts() -> None:
    replies = [
        call_reply(Call("speak", {"word": "a\nb"}, id="c1"), Call("missing", id="c2")),
        "done",
    ]
    async with agent_kit(replies, tools=[speak]) as kit:
        await kit.say("go")
        results = [line for line in lines(kit) if line["type"] == "tool_result"]
    assert [(line["callId"], line["status"]) for line in results] == [
        ("c1", "completed"),
        ("c2", "error"),
    ]
    assert results[0]["result"] == "a\nb"


async def test_the_last_text_that_is_not_blank_is_the_answer() -> None:
    replies = [
        call_reply(Call("speak", {"word": "a"}), text="I look."),
        " \n",
    ]
    async with agent_kit(replies, tools=[speak]) as kit:
        assert await told(kit) == Outcome("I look.")


async def test_a_completed_turn_without_words_has_an_empty_answer() -> None:
    async with agent_kit([""]) as kit:
        assert await told(kit) == Outcome("")


async def test_a_cut_answer_and_a_failure_are_no_answers() -> None:
    async with agent_kit([capped_reply("half"), failed_reply("broken", code="SERVER")]) as kit:
        assert await told(kit) == Outcome("", "MAX_TOKENS", "the output limit cut the answer short")
        assert await told(kit) == Outcome("", "SERVER", "broken")


async def test_only_the_last_turn_decides() -> None:
    async with agent_kit([failed_reply("broken"), "fine"]) as kit:
        start = kit.session.seq
        await told(kit)
        await told(kit)
        assert fold_outcome(kit.session.events[start:]) == Outcome("fine")


def test_without_a_turn_there_is_no_outcome() -> None:
    assert fold_outcome(()).code == "NO_TURN"
