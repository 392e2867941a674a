"""What a reply puts on the wire."""

from __future__ import annotations

import json

import httpx
import pytest
from dsh_llm_mock_server import DEFAULT_USAGE, MockServer, Reply

pytestmark = pytest.mark.anyio


def frames(response: httpx.Response) -> list[object]:
    """The data of every frame; JSON decoded, `[DONE]` as it is."""
    parts = [part.removeprefix("data: ") for part in response.text.split("\n\n") if part]
    return [part if part == "[DONE]" else json.loads(part) for part in parts]


def deltas(response: httpx.Response) -> list[dict]:
    return [f["choices"][0]["delta"] for f in frames(response) if f != "[DONE]" and f["choices"]]


async def stream(server: MockServer, body: dict) -> list[bytes]:
    """The body in the pieces in which it was sent."""
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("POST", server.base_url + "/chat/completions", json=body) as response,
    ):
        return [piece async for piece in response.aiter_raw()]


async def test_text_ends_with_stop_default_usage_and_done(serve_model, ask):
    server = await serve_model([Reply.text("hello")])
    response = await ask(server)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    first, last, done = frames(response)
    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": None}
    ]
    assert (first["model"], first["usage"]) == ("m", None)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"] == DEFAULT_USAGE
    assert done == "[DONE]"


async def test_calls_end_with_tool_calls_and_get_unique_ids_and_next_indexes(serve_model, ask):
    reply = Reply.call("bash", {"command": "ls"}).call("read", '{"file_path":"a"}')
    server = await serve_model([reply, reply])
    calls = [
        delta["tool_calls"][0]
        for _ in range(2)
        for delta in deltas(await ask(server))
        if "tool_calls" in delta
    ]
    assert [call["index"] for call in calls] == [0, 1, 0, 1]
    assert len({call["id"] for call in calls}) == 4
    assert calls[0]["function"] == {"name": "bash", "arguments": '{"command":"ls"}'}
    assert calls[1]["function"]["arguments"] == '{"file_path":"a"}'


async def test_calls_finish_with_tool_calls(serve_model, ask):
    server = await serve_model([Reply.call("bash", {})])
    assert frames(await ask(server))[-2]["choices"][0]["finish_reason"] == "tool_calls"


async def test_none_leaves_a_field_of_a_call_out(serve_model, ask):
    server = await serve_model([Reply.call(None, None, id=None, index=None)])
    assert deltas(await ask(server))[0]["tool_calls"] == [{"type": "function", "function": {}}]


async def test_a_chunked_call_names_itself_first_and_streams_its_arguments(serve_model, ask):
    server = await serve_model([Reply.call("bash", '{"a":"bc"}', id="c1", chunk_size=4)])
    calls = [d["tool_calls"][0] for d in deltas(await ask(server)) if "tool_calls" in d]
    assert calls[0] == {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "bash", "arguments": ""},
    }
    assert [c["function"]["arguments"] for c in calls[1:]] == ['{"a"', ':"bc', '"}']
    assert all(set(c) == {"index", "function"} for c in calls[1:])


async def test_an_explicit_index_moves_the_next_one(serve_model, ask):
    server = await serve_model([Reply.call("a", {}, index=4).call("b", {})])
    calls = [d["tool_calls"][0] for d in deltas(await ask(server)) if "tool_calls" in d]
    assert [c["index"] for c in calls] == [4, 5]


async def test_thinking_comes_as_reasoning_content_with_null_content(serve_model, ask):
    server = await serve_model([Reply.think("Look").text("ok")])
    assert deltas(await ask(server))[:2] == [
        {"role": "assistant", "content": None, "reasoning_content": "Look"},
        {"content": "ok"},
    ]


async def test_text_is_cut_into_deltas_of_code_points(serve_model, ask):
    server = await serve_model([Reply.text("a😀bc😀", chunk_size=2)])
    assert [d["content"] for d in deltas(await ask(server))] == ["a😀", "bc", "😀", ""]


async def test_finish_gives_reason_and_usage_and_may_be_followed_by_a_trailer(serve_model, ask):
    usage = {"prompt_tokens": 283, "completion_tokens": 69, "total_tokens": 352}
    reply = Reply.text("x").finish("length", usage={}).finish(None, usage=usage)
    server = await serve_model([reply])
    _text, finish, trailer, done = frames(await ask(server))
    assert (finish["choices"][0]["finish_reason"], finish["usage"]) == ("length", {})
    assert (trailer["choices"], trailer["usage"], done) == ([], usage, "[DONE]")


async def test_finish_none_sends_done_without_a_finish_frame(serve_model, ask):
    server = await serve_model([Reply.raw('{"choices":[]}').raw("null").finish(None)])
    assert (await ask(server)).text == 'data: {"choices":[]}\n\ndata: null\n\ndata: [DONE]\n\n'


async def test_comments_and_bytes_go_out_as_they_are(serve_model, ask):
    server = await serve_model([Reply.comment().verbatim(b"data: \xff\n\n").finish(None)])
    assert (await ask(server)).content == b": keep-alive\n\ndata: \xff\n\ndata: [DONE]\n\n"


async def test_a_lone_surrogate_goes_out_as_an_escape(serve_model, ask):
    server = await serve_model([Reply.text("a\ud83d").call("t", {"x": "\ud800"})])
    response = await ask(server)
    assert rb'"a\ud83d"' in response.content
    assert deltas(response)[1]["tool_calls"][0]["function"]["arguments"] == r'{"x":"\ud800"}'


async def test_split_breaks_characters_apart_without_changing_the_body(serve_model, body):
    text = "é😀漢" * 20
    server = await serve_model([Reply.text(text).split(3)])
    pieces = await stream(server, body)
    assert max(map(len, pieces)) == 3
    with pytest.raises(UnicodeDecodeError):
        for piece in pieces:
            piece.decode()
    assert text in b"".join(pieces).decode()


async def test_paced_frames_arrive_one_by_one(serve_model, body):
    server = await serve_model([Reply.text("abcd", chunk_size=1).pace(1)])
    pieces = await stream(server, body)
    assert [piece.count(b"data:") for piece in pieces] == [1] * 6


async def test_every_frame_is_an_http_chunk_of_its_own(serve_model, body):
    server = await serve_model([Reply.text("ab", chunk_size=1).pause(1).text("cd", chunk_size=1)])
    pieces = await stream(server, body)
    assert [piece.count(b"data:") for piece in pieces] == [1] * 6


async def test_a_long_reply_arrives_whole(serve_model, ask):
    text = "".join(chr(97 + i % 26) for i in range(30_000))
    server = await serve_model([Reply.text(text, chunk_size=1)])
    assert "".join(d["content"] for d in deltas(await ask(server))) == text


def test_a_reply_never_changes():
    base = Reply.text("a")
    longer = base.text("b")
    assert base == Reply().text("a")
    assert longer != base


def test_methods_on_the_class_start_from_an_empty_reply():
    assert Reply.think("a").text("b").cut() == Reply().think("a").text("b").cut()


@pytest.mark.parametrize("ended", [Reply.cut(), Reply.reset(), Reply.eof(), Reply.status(429)])
def test_nothing_follows_the_end_of_a_reply(ended):
    with pytest.raises(ValueError, match="ends the reply"):
        ended.text("more")


def test_a_head_cannot_follow_the_stream():
    with pytest.raises(ValueError, match="must come first"):
        Reply.text("a").status(500)


@pytest.mark.parametrize(
    "make", [lambda: Reply.text("a", chunk_size=0), lambda: Reply.split(0)], ids=["chunk", "split"]
)
def test_sizes_below_one_are_refused(make):
    with pytest.raises(ValueError, match="at least 1"):
        make()
