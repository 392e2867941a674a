from __future__ import annotations

import json
from typing import Any

import pytest
from dsh_llm import (
    BlockAssembler,
    BlockEnd,
    BlockStart,
    Failed,
    Finish,
    LlmError,
    MaxTokens,
    ReasoningBlock,
    ReasoningDelta,
    Stop,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolCalls,
    Usage,
    UsageChunk,
)
from dsh_llm_mock_server import Reply

pytestmark = pytest.mark.anyio


def folded(chunks: list[StreamChunk]) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


def calls_of(chunks: list[StreamChunk]) -> list[tuple[str, str]]:
    blocks = folded(chunks).blocks()
    return [(b.name, b.arguments) for b in blocks if isinstance(b, ToolCallBlock)]


def ids_of(chunks: list[StreamChunk]) -> list[str]:
    return [b.id for b in folded(chunks).blocks() if isinstance(b, ToolCallBlock)]


def frame(**choice: Any) -> str:
    return json.dumps({"choices": [{"index": 0, **choice}]})


async def test_an_answer_is_streamed_block_by_block(serve_model: Any, mount: Any) -> None:
    reply = Reply.think("Look").text("he").text("llo").finish("stop", usage=None)
    model = await mount(await serve_model([reply]))
    assert await model.ask() == [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "Look"),
        BlockStart(1, "text"),
        TextDelta(1, "he"),
        TextDelta(1, "llo"),
        BlockEnd(0, ReasoningBlock("Look")),
        BlockEnd(1, TextBlock("hello")),
        Finish(Stop()),
    ]


async def test_any_cut_of_the_bytes_gives_the_same_answer(serve_model: Any, mount: Any) -> None:
    reply = Reply.think("größer 😀").text("naïve").call("bash", {"command": "ls"}, id="c1")
    server = await serve_model([reply, *(reply.split(size) for size in (1, 2, 3, 7))])
    model = await mount(server)
    whole = await model.ask()
    for _ in range(4):
        assert await model.ask() == whole


async def test_usage_counts_cached_tokens_apart(serve_model: Any, mount: Any) -> None:
    usage = {
        "prompt_tokens": 283,
        "completion_tokens": 69,
        "prompt_cache_hit_tokens": 256,
        "completion_tokens_details": {"reasoning_tokens": 24},
    }
    model = await mount(await serve_model([Reply.text("x").finish("stop", usage=usage)]))
    chunks = await model.ask()
    assert chunks[-2] == UsageChunk(
        Usage(input_tokens=27, output_tokens=69, cache_read_tokens=256, reasoning_tokens=24)
    )


async def test_the_last_usage_wins_and_comes_before_the_finish(
    serve_model: Any, mount: Any
) -> None:
    reply = (
        Reply.text("x")
        .finish("stop", usage={"prompt_tokens": 1})
        .raw('{"choices":[],"usage":{"prompt_tokens":2,"prompt_tokens_details":null}}')
    )
    model = await mount(await serve_model([reply]))
    assert (await model.ask())[-2:] == [UsageChunk(Usage(input_tokens=2)), Finish(Stop())]


async def test_empty_chunks_null_parts_and_comments_are_no_content(
    serve_model: Any, mount: Any
) -> None:
    reply = (
        Reply.raw('{"choices":[]}')
        .comment()
        .text("he")
        .raw("null")
        .raw("")
        .raw('{"choices":null,"usage":null}')
        .raw('{"choices":[null,{"index":0,"delta":null,"finish_reason":null}]}')
        .comment()
        .text("llo")
        .raw(frame(delta={"content": None, "role": None, "tool_calls": None}, finish_reason="stop"))
        .raw('{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":null}}')
        .raw('{"choices":[],"usage":null,"x_vendor":{"a":[1]}}')
        .raw('{"choices":[],"usage":{}}')
        .finish(None)
    )
    model = await mount(await serve_model([reply]))
    assembler = folded(await model.ask())
    assert assembler.blocks() == (TextBlock("hello"),)
    assert assembler.usage == Usage(input_tokens=10)
    assert assembler.finish == Stop()


async def test_empty_deltas_open_no_block(serve_model: Any, mount: Any) -> None:
    reply = Reply.text("").think("").text("x")
    model = await mount(await serve_model([reply]))
    assert folded(await model.ask()).blocks() == (TextBlock("x"),)


async def test_parallel_calls_keep_separate_arguments(serve_model: Any, mount: Any) -> None:
    reply = (
        Reply.call("bash", "", id="c1", index=0)
        .call("read", "", id="c2", index=1)
        .call(None, '{"a"', id=None, index=0)
        .call(None, '{"b"', id=None, index=1)
        .call(None, ":1}", id=None, index=0)
        .call(None, ":2}", id=None, index=1)
    )
    model = await mount(await serve_model([reply]))
    chunks = await model.ask()
    assert calls_of(chunks) == [("bash", '{"a":1}'), ("read", '{"b":2}')]
    deltas = [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert len(deltas) == 6
    assert all(delta.id in ("c1", "c2") for delta in deltas)


A, B = '{"command":"echo a"}', '{"command":"echo b"}'
TWO = [("bash", A), ("bash", B)]


@pytest.mark.parametrize("ids", [("c1", "c2"), ("c1", "c1"), (None, None), ("", "")])
@pytest.mark.parametrize("indexes", [(0, 1), (0, 0), (None, None), (3, 1)])
async def test_two_calls_are_two_whatever_their_ids_and_indexes(
    serve_model: Any, mount: Any, ids: tuple[Any, Any], indexes: tuple[Any, Any]
) -> None:
    reply = Reply.call("bash", A, id=ids[0], index=indexes[0]).call(
        "bash", B, id=ids[1], index=indexes[1]
    )
    model = await mount(await serve_model([reply]))
    chunks = await model.ask()
    assert calls_of(chunks) == TWO
    assert len(set(ids_of(chunks))) == 2
    assert all(ids_of(chunks))


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("ids", [("c1", "c2"), (None, None)])
async def test_fragments_of_calls_that_share_an_index_stay_apart(
    serve_model: Any, mount: Any, index: int | None, ids: tuple[Any, Any]
) -> None:
    reply = (
        Reply.call("bash", "", id=ids[0], index=index)
        .call(None, A[:5], id=None, index=index)
        .call(None, A[5:], id=None, index=index)
        .call("bash", "", id=ids[1], index=index)
        .call(None, B, id=None, index=index)
    )
    model = await mount(await serve_model([reply]))
    assert calls_of(await model.ask()) == TWO


async def test_a_name_or_id_that_comes_with_every_fragment_makes_one_call(
    serve_model: Any, mount: Any
) -> None:
    reply = Reply()
    for piece in (A[:3], A[3:9], A[9:]):
        reply = reply.call("bash", piece, id="c1", index=0)
    model = await mount(await serve_model([reply]))
    chunks = await model.ask()
    assert calls_of(chunks) == [("bash", A)]
    assert ids_of(chunks) == ["c1"]


async def test_an_id_that_comes_late_does_not_split_the_call(serve_model: Any, mount: Any) -> None:
    reply = Reply.call("bash", A[:5], id=None, index=0).call(None, A[5:], id="late", index=0)
    model = await mount(await serve_model([reply]))
    assert calls_of(await model.ask()) == [("bash", A)]


async def test_arguments_that_come_as_an_object_are_read_as_their_json(
    serve_model: Any, mount: Any
) -> None:
    call = {"index": "0", "id": "c1", "function": {"name": "bash", "arguments": {"a": 1}}}
    reply = Reply.raw(frame(delta={"tool_calls": [None, call]})).finish("tool_calls")
    model = await mount(await serve_model([reply]))
    assert calls_of(await model.ask()) == [("bash", '{"a":1}')]


async def test_calls_count_although_the_server_says_stop(serve_model: Any, mount: Any) -> None:
    reply = Reply.text("I look").call("bash", {}, id="c1").finish("stop")
    model = await mount(await serve_model([reply]))
    assert isinstance(folded(await model.ask()).finish, ToolCalls)


async def test_a_server_that_names_no_reason_has_stopped(serve_model: Any, mount: Any) -> None:
    model = await mount(await serve_model([Reply.text("x").finish(None)]))
    assert isinstance(folded(await model.ask()).finish, Stop)


async def test_the_output_limit_ends_without_calls(serve_model: Any, mount: Any) -> None:
    reply = Reply.text("so").call("bash", '{"comm', id="c1").finish("length")
    model = await mount(await serve_model([reply]))
    assembler = folded(await model.ask())
    assert isinstance(assembler.finish, MaxTokens)
    assert assembler.blocks() == (TextBlock("so"),)


async def test_reasoning_alone_is_an_answer(serve_model: Any, mount: Any) -> None:
    model = await mount(await serve_model([Reply.think("hm")]))
    assembler = folded(await model.ask())
    assert (assembler.blocks(), assembler.finish) == ((ReasoningBlock("hm"),), Stop())


async def test_text_that_is_none_is_repaired_where_it_enters(serve_model: Any, mount: Any) -> None:
    content = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
    reply = (
        Reply.verbatim(content % b"caf\xe9 ")
        .verbatim(content % b"a\\u0000b ")
        .verbatim(content % b"c\\ud800d")
    )
    model = await mount(await serve_model([reply]))
    assert folded(await model.ask()).blocks() == (TextBlock("caf\ufffd a\ufffdb c\ufffdd"),)


async def test_a_character_that_comes_in_two_halves_is_one(serve_model: Any, mount: Any) -> None:
    reply = Reply()
    for name, value in (
        ("content", "a\\ud83d"),
        ("reasoning_content", "\\ud83d"),
        ("content", "\\ude00b\\ud83d"),
        ("reasoning_content", "\\ude00"),
        ("content", "c\\ud83d"),
    ):
        reply = reply.raw(f'{{"choices":[{{"delta":{{"{name}":"{value}"}}}}]}}')
    model = await mount(await serve_model([reply]))
    blocks = folded(await model.ask()).blocks()
    assert set(blocks) == {TextBlock("a😀b\ufffdc\ufffd"), ReasoningBlock("😀")}


async def test_halves_in_arguments_are_joined_too(serve_model: Any, mount: Any) -> None:
    call = '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":%s}]}}]}'
    reply = Reply.raw(call % '{"name":"bash","arguments":"{\\"a\\":\\"\\ud83d"}').raw(
        call % '{"arguments":"\\ude00\\"}"}'
    )
    model = await mount(await serve_model([reply]))
    assert calls_of(await model.ask()) == [("bash", '{"a":"😀"}')]


async def test_an_odd_account_of_the_cost_does_not_spoil_the_answer(
    serve_model: Any, mount: Any
) -> None:
    reply = Reply.text("x").raw(
        '{"choices":[{"delta":{"content":"y"}}],"usage":{"prompt_tokens_details":[]}}'
    )
    model = await mount(await serve_model([reply.finish("stop", usage=None)]))
    assert folded(await model.ask()).blocks() == (TextBlock("xy"),)


async def test_names_and_arguments_are_repaired_too(serve_model: Any, mount: Any) -> None:
    reply = Reply.call("ba\0sh", '{"a":"\0"}', id="c\0")
    model = await mount(await serve_model([reply]))
    chunks = await model.ask()
    assert calls_of(chunks) == [("ba\ufffdsh", '{"a":"\ufffd"}')]
    assert ids_of(chunks) == ["c\ufffd"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply.finish("stop"), "EMPTY_RESPONSE"),
        (Reply.body(""), "EMPTY_RESPONSE"),
        (Reply.text("half").eof(), "STREAM_CLOSED"),
        (Reply.text("half").verbatim(b"data: [DONE]").eof(), "STREAM_CLOSED"),
        (Reply.text("half").finish("content_filter"), "CONTENT_FILTER"),
        (Reply.text("half").finish("insufficient_system_resource"), "SERVER"),
        (Reply.text("half").finish("odd_reason"), "ODD_REASON"),
        (Reply.raw("{oops"), "MALFORMED_RESPONSE"),
        (Reply.raw("[1]"), "MALFORMED_RESPONSE"),
        (Reply.raw('{"choices":3}'), "MALFORMED_RESPONSE"),
        (Reply.body("<html>login</html>", "text/html"), "MALFORMED_RESPONSE"),
        (Reply.body('{"error":{"message":"busy","code":429}}', "application/json"), "RATE_LIMIT"),
        (Reply.text("half").raw('{"error":{"message":"busy","code":503}}'), "SERVER"),
        (Reply.raw('{"error":{"message":"Insufficient Balance"}}'), "QUOTA"),
        (Reply.raw('{"error":{"type":"rate_limit_error","message":"slow"}}'), "RATE_LIMIT"),
        (Reply.raw('{"error":"something broke"}'), "SERVER"),
        (Reply.text("half").cut(), "TRANSPORT"),
        (Reply.cut(), "TRANSPORT"),
        (Reply.reset(), "TRANSPORT"),
    ],
)
async def test_an_answer_that_is_none_fails_with_its_code(
    serve_model: Any, mount: Any, reply: Reply, code: str
) -> None:
    server = await serve_model([reply])
    model = await mount(server)
    failure = await model.failure()
    assert failure.code == code
    assert len(server.requests) == 1


async def test_the_usage_of_an_empty_answer_is_still_told(serve_model: Any, mount: Any) -> None:
    model = await mount(await serve_model([Reply.finish("stop", usage={"prompt_tokens": 7})]))
    chunks = await model.ask()
    assert chunks[0] == UsageChunk(Usage(input_tokens=7))
    assert isinstance(chunks[1], Finish)
    assert isinstance(chunks[1].reason, Failed)


async def test_what_came_before_a_failure_is_told_first(serve_model: Any, mount: Any) -> None:
    reply = Reply.text("half").raw('{"error":{"message":"busy"}}')
    model = await mount(await serve_model([reply]))
    chunks = await model.ask()
    assert chunks[:2] == [BlockStart(0, "text"), TextDelta(0, "half")]
    assert folded(chunks).interrupted_blocks() == (TextBlock("half"),)


def test_a_call_id_is_never_one_that_the_conversation_has() -> None:
    from dsh_llm_deepseek._calls import CallTable
    from dsh_llm_deepseek._wire import WireCall, WireFunction

    table = CallTable(lambda: {"call_0"})
    call = table.open(WireCall(0, "call_0", WireFunction("bash", "{}")), 0)
    assert call.id not in ("", "call_0")


def test_an_error_with_an_absurd_shape_is_still_a_failure() -> None:
    from dsh_llm_deepseek._failures import stream_error

    for error in (["x"], {"message": ["x"]}, {"message": None, "code": True}, 3):
        assert isinstance(stream_error(error), LlmError)
