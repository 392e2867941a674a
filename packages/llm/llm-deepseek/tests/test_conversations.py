"""Whole turns of real agents against a strict server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from dsh_agent import AgentOptions
from dsh_agent_loop_testkit import AgentKit, TurnEndedError, agent_kit, assert_no_leaks
from dsh_cordis_loader import LOADER, Loader, parse_rows, read_yaml
from dsh_llm import ToolResultBlock, create_user_message, text_of
from dsh_llm_mock_server import MockServer, Reply
from dsh_session import TOOL_CALL, TOOL_RESULT, ByUser, TurnFailed
from dsh_tools import tool

pytestmark = pytest.mark.anyio

ROWS = """
- id: llm-deepseek
  name: dsh_llm_deepseek:DeepSeekProvider
  config:
    baseURL: {base_url}
    retryPolicy: {{maxRetries: 2, backoff: {{initialDelayMs: 1, maxDelayMs: 2}}}}
- id: llm-retry
  name: dsh_llm_retry:LlmRetry
"""


@dataclass
class Talk:
    kit: AgentKit
    server: MockServer
    ran: list[str]

    def results(self) -> list[tuple[bool, str]]:
        """Of each result: whether it is an error, and its text."""
        blocks = [data.message.content[0] for data in self.kit.of(TOOL_RESULT)]
        assert all(isinstance(block, ToolResultBlock) for block in blocks)
        return [(bool(block.is_error), text_of(block.content)) for block in blocks]  # type: ignore[union-attr]


@pytest.fixture
def talk(serve_model: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An agent with one tool, `bash`, that only remembers its command."""
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-test")

    @asynccontextmanager
    async def talk(*replies: Reply) -> AsyncIterator[Talk]:
        ran: list[str] = []

        @tool
        async def bash(command: str) -> str:
            """Run a command."""
            ran.append(command)
            return f"ran {command}"

        server = await serve_model(replies)
        options = AgentOptions(provider="deepseek-official", model="deepseek-v4-flash")
        async with agent_kit(tools=[bash], options=options) as kit:
            await kit.root.plugin(Loader)
            text = ROWS.format(base_url=server.base_url)
            listed = read_yaml(text, where="rows")
            rows = parse_rows(listed, where="rows", base=None, origin="test")
            await kit.root[LOADER].apply(rows)
            yield Talk(kit, server, ran)
        assert server.refusals == []

    return talk


A, B = {"command": "a"}, {"command": "b"}


async def test_rows_of_a_composition_serve_a_whole_turn(talk: Any) -> None:
    async with talk(Reply.call("bash", A), Reply.text("done")) as t:
        assert await t.kit.say("go") == "done"
        assert t.ran == ["a"]
        assert t.server.requests[1].messages[-1]["content"] == "ran a"


async def test_arguments_that_are_not_json_come_back_as_errors_and_poison_nothing(
    talk: Any,
) -> None:
    broken = ('{"command": "ls', 'command": "ls"}')
    replies = [Reply.call("bash", text) for text in broken]
    async with talk(*replies, Reply.text("done"), Reply.text("still here")) as t:
        assert await t.kit.say("go") == "done"
        assert await t.kit.say("more") == "still here"
        assert t.ran == []
        for (is_error, text), sent in zip(t.results(), broken, strict=True):
            assert is_error
            assert sent[:10] in text
        assert [call.arguments for call in t.kit.of(TOOL_CALL)] == list(broken)


async def test_reasoning_comes_back_over_turns(talk: Any) -> None:
    async with talk(
        Reply.think("A").call("bash", A),
        Reply.call("bash", B),
        Reply.think("B").text("ok"),
        Reply.text("again"),
    ) as t:
        assert await t.kit.say("go") == "ok"
        await t.kit.say("more")
        answers = [m for m in t.server.requests[-1].messages if m["role"] == "assistant"]
        assert [m["reasoning_content"] for m in answers] == ["A", "", "B"]


@pytest.mark.parametrize("index", [0, None])
async def test_calls_that_share_an_index_have_a_result_each(talk: Any, index: Any) -> None:
    reply = Reply.call("bash", A, id="c1", index=index).call("bash", B, id="c2", index=index)
    async with talk(reply, Reply.text("done")) as t:
        await t.kit.say("go")
        sent = [m for m in t.server.requests[1].messages if m["role"] == "tool"]
        pairs = {m["tool_call_id"]: m["content"] for m in sent}
        assert pairs == {"c1": "ran a", "c2": "ran b"}


async def test_a_tool_runs_although_the_server_says_stop(talk: Any) -> None:
    async with talk(Reply.text("I look").call("bash", A).finish("stop"), Reply.text("seen")) as t:
        assert await t.kit.say("go") == "seen"
        assert t.ran == ["a"]


async def test_a_server_that_repeats_its_ids_in_every_step_confuses_nobody(talk: Any) -> None:
    replies = [Reply.call("bash", A, id="call_0"), Reply.call("bash", B, id="call_0")]
    async with talk(*replies, Reply.text("done")) as t:
        assert await t.kit.say("go") == "done"
        assert t.ran == ["a", "b"]
        ids = [call.call_id for call in t.kit.of(TOOL_CALL)]
        assert len(set(ids)) == 2


async def test_a_name_that_no_tool_can_have_is_an_error_result(talk: Any) -> None:
    async with talk(Reply.call("fn.bash tool", A), Reply.text("sorry")) as t:
        assert await t.kit.say("go") == "sorry"
        assert t.results()[0][0]


@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        (Reply.status(401), "AUTH", 1),
        (Reply.status(400), "INVALID_REQUEST", 1),
        (Reply.status(402), "QUOTA", 1),
        (Reply.status(429, {}, {"error": {"message": "insufficient_quota"}}), "QUOTA", 1),
        (Reply.text("half").finish("content_filter"), "CONTENT_FILTER", 1),
        (Reply.status(429), "RATE_LIMIT", 3),
        (Reply.status(500), "SERVER", 3),
        (Reply.body(""), "EMPTY_RESPONSE", 3),
        (Reply.text("half").eof(), "STREAM_CLOSED", 3),
        (Reply.text("half").cut(), "TRANSPORT", 3),
    ],
)
async def test_a_failing_server_is_asked_a_bounded_number_of_times(
    talk: Any, reply: Reply, code: str, requests: int
) -> None:
    async with talk(*[reply] * 5) as t:
        with pytest.raises(TurnEndedError) as caught:
            await t.kit.say("go")
        assert isinstance(caught.value.reason, TurnFailed)
        assert caught.value.reason.error.code == code
        assert len(t.server.requests) == requests


async def test_a_failed_attempt_and_its_retry_send_the_same_body(talk: Any) -> None:
    async with talk(Reply.text("half").eof(), Reply.text("whole")) as t:
        assert await t.kit.say("go") == "whole"
        first, second = t.server.requests
        assert first.body == second.body


@pytest.mark.parametrize("ending", ["answered", "failed", "cancelled"])
async def test_a_composition_leaves_nothing_behind(talk: Any, ending: str) -> None:
    replies = {
        "answered": [Reply.call("bash", A), Reply.text("done")],
        "failed": [Reply.text("half").cut()] * 3,
        "cancelled": [Reply.text("half").stall()],
    }
    async with assert_no_leaks():
        async with talk(*replies[ending]) as t:
            t.kit.agent.followup(create_user_message("go"))
            if ending == "cancelled":
                await t.server.wait_for_request()
                t.kit.agent.cancel(ByUser())
            await t.kit.agent.when_idle()
        await t.server.aclose()
