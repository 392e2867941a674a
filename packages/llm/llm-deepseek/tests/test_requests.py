from __future__ import annotations

import gc
from importlib.metadata import version
from typing import Any

import pytest
from dsh_llm import (
    Message,
    ModelSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolSchema,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from dsh_llm_deepseek._body import RequestEncoder, encode_message, in_wire_order, wire_arguments
from dsh_llm_mock_server import Reply
from dsh_lossless_json import FrozenDict

pytestmark = pytest.mark.anyio

SOURCE = ModelSource("deepseek-official", "deepseek-v4-flash")


def said(*blocks: Any) -> Message:
    return create_assistant_message(blocks, source=SOURCE)


def result(call_id: str, text: str = "out") -> Message:
    return create_tool_result_message(call_id, [TextBlock(text)], is_error=False)


def call(call_id: str, arguments: str = "{}", name: str = "bash") -> ToolCallBlock:
    return ToolCallBlock(call_id, name, arguments)


async def sent(serve_model: Any, mount: Any, *messages: Message, **rest: Any) -> dict[str, Any]:
    """The body that a strict server accepted."""
    server = await serve_model([Reply.text("ok")])
    config = rest.pop("config", {})
    model = await mount(server, **config)
    await model.ask(*messages, **rest)
    assert server.refusals == []
    return server.requests[0].body


async def test_a_request_has_exactly_what_was_asked_for(serve_model: Any, mount: Any) -> None:
    schema = FrozenDict({"type": "object", "properties": {}})
    body = await sent(
        serve_model,
        mount,
        create_user_message("hi"),
        system="be brief",
        tools=(ToolSchema("bash", "runs", schema),),
        temperature=0.5,
        max_tokens=8192,
        stop=("END",),
    )
    assert body == {
        "model": "deepseek-v4-flash",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "bash", "description": "runs", "parameters": dict(schema)},
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "thinking": {"type": "enabled"},
        "reasoning_effort": "high",
        "temperature": 0.5,
        "max_tokens": 8192,
        "stop": ["END"],
    }


async def test_only_the_needed_headers_are_sent(serve_model: Any, mount: Any) -> None:
    server = await serve_model([Reply.text("ok")], require_key="sk-test-0123456789")
    model = await mount(server)
    await model.ask()
    headers = dict(server.requests[0].headers)
    assert headers.pop("user-agent") == f"dsh/{version('dsh-llm-deepseek')}"
    assert set(headers) == {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
    }


@pytest.mark.parametrize(
    ("config", "rest", "effort"),
    [
        ({}, {}, "high"),
        ({"reasoningEffort": "max"}, {}, "max"),
        ({"reasoningEffort": "off"}, {"reasoning_effort": "max"}, "max"),
        ({}, {"reasoning_effort": "low"}, "low"),
        ({}, {"reasoning_effort": "off"}, None),
        ({"thinking": "disabled"}, {}, None),
        ({}, {"purpose": "session-title"}, None),
    ],
)
async def test_thinking_follows_the_request_then_the_configuration(
    serve_model: Any, mount: Any, config: Any, rest: Any, effort: str | None
) -> None:
    body = await sent(serve_model, mount, config=config, **rest)
    assert body.get("reasoning_effort") == effort
    assert body["thinking"] == {"type": "enabled" if effort else "disabled"}


async def test_reasoning_goes_back_byte_for_byte_and_empty_where_there_was_none(
    serve_model: Any, mount: Any
) -> None:
    history = (
        create_user_message("go"),
        said(ReasoningBlock(" A\n"), call("c1")),
        result("c1"),
        said(call("c2")),
        result("c2"),
        said(ReasoningBlock("B"), TextBlock("ok")),
        create_user_message("more"),
    )
    body = await sent(serve_model, mount, *history)
    answers = [m for m in body["messages"] if m["role"] == "assistant"]
    assert [m["reasoning_content"] for m in answers] == [" A\n", "", "B"]
    assert [m["content"] for m in answers] == ["", "", "ok"]


async def test_thinking_can_be_switched_within_a_conversation(serve_model: Any, mount: Any) -> None:
    server = await serve_model([Reply.text("ok")] * 3)
    model = await mount(server)
    history = (create_user_message("go"), said(ReasoningBlock("A"), TextBlock("x")))
    for effort in ("high", "off", "high"):
        await model.ask(*history, create_user_message("more"), reasoning_effort=effort)
    sent = [request.messages[1].get("reasoning_content") for request in server.requests]
    assert sent == ["A", None, "A"]


@pytest.mark.parametrize(
    "arguments",
    ['{"command": "ls', 'command": "ls"}', "", "[1]", "null", "3", '{"a":NaN}', '"{}"', "{}x"],
)
async def test_arguments_that_are_no_object_go_back_as_an_empty_one(
    serve_model: Any, mount: Any, arguments: str
) -> None:
    history = (create_user_message("go"), said(call("c1", arguments)), result("c1"))
    body = await sent(serve_model, mount, *history)
    assert body["messages"][1]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    ]


def test_arguments_that_parse_go_back_as_they_came() -> None:
    assert wire_arguments('{ "a" : 1e3 }') == '{ "a" : 1e3 }'
    assert wire_arguments('{"a":"x\\u0000y"}') == '{"a":"x\ufffdy"}'
    assert wire_arguments('{"a":"\\\\u0000"}') == '{"a":"\\\\u0000"}'
    assert wire_arguments('{"a":"\\ud800"}') == "{}"


@pytest.mark.parametrize("name", ["", "a b", "fn.bash", "x" * 90, "bäsh"])
async def test_a_name_that_no_tool_can_have_goes_back_as_one_it_could(
    serve_model: Any, mount: Any, name: str
) -> None:
    history = (create_user_message("go"), said(call("c1", name=name)), result("c1"))
    await sent(serve_model, mount, *history)


async def test_text_that_is_none_goes_out_repaired(serve_model: Any, mount: Any) -> None:
    body = await sent(
        serve_model,
        mount,
        create_user_message("a\0b"),
        said(TextBlock("x\ud800"), call("c1")),
        result("c1", "o\0ut"),
        system="s\0",
    )
    assert [m["content"] for m in body["messages"]] == [
        "s\ufffd",
        "a\ufffdb",
        "x\ufffd",
        "o\ufffdut",
    ]


async def test_empty_contents_have_a_form_that_servers_take(serve_model: Any, mount: Any) -> None:
    empty = create_tool_result_message("c1", [], is_error=False)
    history = (create_user_message([]), said(call("c1")), empty, said(ReasoningBlock("r")))
    body = await sent(serve_model, mount, *history, create_user_message("go on"))
    contents = [m["content"] for m in body["messages"]]
    assert contents == ["", "", "(no output)", "", "go on"]


async def test_results_follow_their_calls_and_what_came_between_waits(
    serve_model: Any, mount: Any
) -> None:
    history = (
        create_user_message("go"),
        said(call("c1"), call("c2")),
        result("c2", "two"),
        create_user_message("meanwhile"),
        result("c1", "one"),
        create_user_message("next"),
    )
    body = await sent(serve_model, mount, *history)
    contents = [(m["role"], m["content"]) for m in body["messages"]]
    assert contents == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", "two"),
        ("tool", "one"),
        ("user", "meanwhile"),
        ("user", "next"),
    ]


async def test_a_call_without_result_and_a_result_without_call_do_not_poison(
    serve_model: Any, mount: Any
) -> None:
    history = (
        create_user_message("go"),
        result("ghost"),
        said(call("c1")),
        said(TextBlock("later"), call("c2")),
        result("c2"),
        result("c2"),
    )
    body = await sent(serve_model, mount, *history)
    roles = [m["role"] for m in body["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert "no result" in body["messages"][2]["content"]


async def test_blocks_that_the_wire_has_no_place_for_are_left_out(
    serve_model: Any, mount: Any
) -> None:
    from dsh_llm import ContentBlock
    from dsh_lossless_json import convert

    strange = convert({"type": "hologram", "depth": 3}, ContentBlock)
    body = await sent(serve_model, mount, create_user_message([TextBlock("a"), strange]))
    assert body["messages"] == [{"role": "user", "content": "a"}]


async def test_a_message_is_encoded_once_and_forgotten_with_its_last_use(
    model_options: Any,
) -> None:
    encoder = RequestEncoder()
    message = create_user_message("x" * 1000)
    _, first = encoder.encode(model_options(message), "high")
    _, second = encoder.encode(model_options(message, create_user_message("y")), "high")
    assert second[0] is first[0]
    assert second[1] is not first[0]
    del message, first, second
    gc.collect()
    assert len(encoder._thinking) == 0


def test_an_equal_message_with_other_content_is_not_confused(model_options: Any) -> None:
    import msgspec

    encoder = RequestEncoder()
    message = create_user_message("long output")
    pruned = msgspec.structs.replace(message, content=(TextBlock("short"),))
    before, _ = encoder.encode(model_options(message), "high")
    after, _ = encoder.encode(model_options(pruned), "high")
    assert b"long output" in before
    assert b"short" in after


def test_order_is_kept_where_nothing_is_out_of_place() -> None:
    history = [create_user_message("a"), said(call("c1")), result("c1"), said(TextBlock("b"))]
    encoded = [encode_message(message, thinking=False) for message in history]
    expected = [m.own or m.results[0][1] for m in encoded]
    assert in_wire_order(encoded) == expected
