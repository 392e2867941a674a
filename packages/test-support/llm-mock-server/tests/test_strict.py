"""What a strict server refuses, and what it takes."""

from __future__ import annotations

import copy

import pytest
from dsh_llm_mock_server import Reply

pytestmark = pytest.mark.anyio

USER = {"role": "user", "content": "go"}
CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


def called(*calls):
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def call(**changes):
    changed = copy.deepcopy(CALL)
    for name, value in changes.items():
        if name in ("name", "arguments"):
            changed["function"][name] = value
        else:
            changed[name] = value
    return changed


def tool(name="bash", parameters=None, **more):
    schema = {"type": "object", "properties": {}} if parameters is None else parameters
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


TWO = called(CALL, call(id="c2"))
RESULT2 = {**RESULT, "tool_call_id": "c2"}
OK = {
    "plain turns": [USER, {"role": "assistant", "content": "a"}, USER],
    "a system prompt": [{"role": "system", "content": "s"}, USER],
    "empty contents": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, USER],
    "content in parts": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
    "a call and its result": [USER, called(CALL), RESULT],
    "null content beside calls": [USER, {**called(CALL), "content": None}, RESULT, USER],
    "two results in any order": [USER, TWO, RESULT2, RESULT, USER],
    "an id used again in a later message": [USER, called(CALL), RESULT, called(CALL), RESULT],
    "reasoning while thinking is off": [USER, {**called(CALL), "reasoning_content": "r"}, RESULT],
    "a number beyond a float": [USER, called(call(arguments='{"n":1e999}')), RESULT],
    "an escaped emoji": [USER, called(call(arguments='{"t":"\\ud83d\\ude00"}')), RESULT],
    "text about NUL": [{"role": "user", "content": "write \\u0000 in C"}],
}
BAD = {
    "a call without its result": ([USER, called(CALL)], "call 'c1' has no result"),
    "a call answered too late": (
        [USER, called(CALL), USER, RESULT],
        "no result before messages[2]",
    ),
    "one of two results": ([USER, TWO, RESULT], "call 'c2' has no result"),
    "two results for one call": ([USER, called(CALL), RESULT, RESULT], "has a result already"),
    "a result without a call": ([USER, RESULT], "is no call of"),
    "a result of another message": (
        [USER, called(CALL), RESULT, USER, RESULT],
        "is no call of",
    ),
    "a result without an id": (
        [USER, called(CALL), {"role": "tool", "content": ""}],
        "tool_call_id: must be",
    ),
    "a result without content": (
        [USER, called(CALL), {"role": "tool", "tool_call_id": "c1"}],
        "content: must be",
    ),
    "arguments cut off": ([USER, called(call(arguments='{"a":')), RESULT], "not valid JSON"),
    "empty arguments": ([USER, called(call(arguments="")), RESULT], "not valid JSON"),
    "arguments that are an array": (
        [USER, called(call(arguments="[]")), RESULT],
        "must hold a JSON object",
    ),
    "arguments with NaN": ([USER, called(call(arguments='{"a":NaN}')), RESULT], "not valid JSON"),
    "arguments not in a string": ([USER, called(call(arguments={})), RESULT], "must be a string"),
    "arguments with NUL": (
        [USER, called(call(arguments='{"a":"\\u0000"}')), RESULT],
        "U+0000",
    ),
    "arguments with half a pair": (
        [USER, called(call(arguments='{"a":"\\ud83d"}')), RESULT],
        "arguments: not valid JSON",
    ),
    "an empty call id": ([USER, called(call(id="")), RESULT], "id: must be a non-empty string"),
    "a missing call id": ([USER, called(call(id=None)), RESULT], "id: must be a non-empty string"),
    "a call id used twice": ([USER, called(CALL, CALL), RESULT, RESULT], "used twice"),
    "a call of no type": ([USER, called(call(type=None)), RESULT], 'must be "function"'),
    "a call of a bad name": ([USER, called(call(name="a.b")), RESULT], "must match"),
    "a call of an empty name": ([USER, called(call(name="")), RESULT], "must match"),
    "a call of a long name": ([USER, called(call(name="a" * 65)), RESULT], "must match"),
    "a name that ends in a newline": ([USER, called(call(name="bash\n")), RESULT], "must match"),
    "an empty list of calls": ([USER, called()], "non-empty array"),
    "a call without a function": ([USER, called({"id": "c1", "type": "function"})], "must be"),
    "an assistant without content": ([USER, {"role": "assistant"}], "content: must be"),
    "null user content": ([{"role": "user", "content": None}], "content: must be"),
    "a part without a type": ([{"role": "user", "content": [{}]}], "with a type"),
    "an unknown role": ([{"role": "robot", "content": ""}], "'robot' is not one of"),
    "a message that is none": (["hi"], "messages[0]: must be an object"),
    "no messages": ([], "messages: must be a non-empty array"),
    "reasoning that is no text": (
        [{"role": "assistant", "content": "", "reasoning_content": 1}],
        "reasoning_content: must be a string",
    ),
}


@pytest.mark.parametrize("messages", OK.values(), ids=OK)
async def test_accepts_messages(serve_model, ask, body, messages):
    server = await serve_model([Reply.text("ok")])
    response = await ask(server, {**body, "messages": messages})
    assert response.status_code == 200, response.text
    assert server.refusals == []


@pytest.mark.parametrize(("messages", "reason"), BAD.values(), ids=BAD)
async def test_refuses_messages(serve_model, ask, body, messages, reason):
    server = await serve_model([Reply.text("ok")])
    response = await ask(server, {**body, "messages": messages})
    assert response.status_code == 400
    assert reason in response.json()["error"]["message"]
    assert [(r.status, r.message) for r in server.refusals] == [
        (400, response.json()["error"]["message"])
    ]
    assert server.requests == []


@pytest.mark.parametrize(
    "messages",
    [[USER, {"role": "assistant", "content": "a"}, USER], [USER, called(CALL), RESULT]],
    ids=["text", "call"],
)
async def test_while_thinking_every_assistant_message_needs_its_reasoning(
    serve_model, ask, body, messages
):
    server = await serve_model(lambda request: Reply.text("ok"))
    thinking = {**body, "messages": messages, "thinking": {"type": "enabled"}}
    response = await ask(server, thinking)
    assert response.status_code == 400
    assert "messages[1].reasoning_content" in response.json()["error"]["message"]
    given = [{"reasoning_content": "", **m} if m["role"] == "assistant" else m for m in messages]
    assert (await ask(server, {**thinking, "messages": given})).status_code == 200
    off = {**thinking, "thinking": {"type": "disabled"}}
    assert (await ask(server, off)).status_code == 200


GOOD_TOOLS = {
    "no parameters": [tool()],
    "a description": [tool(description="d")],
    "the longest name": [tool("a-Z_9" + "x" * 59)],
    "nested schemas": [
        tool(
            parameters={
                "type": "object",
                "properties": {
                    "a": {"type": "array", "items": {"$ref": "#/$defs/b"}},
                    "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "d": True,
                },
                "required": ["a"],
                "additionalProperties": False,
                "$defs": {"b": {"type": "string"}},
            }
        )
    ],
}
BAD_TOOLS = {
    "no tools": ([], "non-empty array"),
    "not a tool": (["bash"], 'must be "function"'),
    "no function": ([{"type": "function"}], "function: must be an object"),
    "a bad name": ([tool("a b")], "must match"),
    "a name used twice": ([tool(), tool()], "used twice"),
    "a description that is no text": ([tool(description=None)], "description: must be"),
    "a root that is a string": ([tool(parameters={"type": "string"})], '"type": "object"'),
    "a root without a type": ([tool(parameters={"$schema": "x"})], '"type": "object"'),
    "a choice at the root": (
        [tool(parameters={"anyOf": [{"type": "object"}]})],
        '"type": "object"',
    ),
    "no schema": ([{"type": "function", "function": {"name": "a"}}], '"type": "object"'),
    "required among the properties": (
        [tool(parameters={"type": "object", "properties": {"required": ["a"]}})],
        "properties.required: a schema must be",
    ),
    "properties that are a list": (
        [tool(parameters={"type": "object", "properties": []})],
        "an object of schemas",
    ),
    "a choice that is no list": (
        [tool(parameters={"type": "object", "properties": {"a": {"anyOf": {}}}})],
        "an array of schemas",
    ),
    "items that are no schema": (
        [tool(parameters={"type": "object", "properties": {"a": {"items": "string"}}})],
        "a schema must be",
    ),
    "required that is no list of names": (
        [tool(parameters={"type": "object", "required": "a"})],
        "array of strings",
    ),
}


@pytest.mark.parametrize("tools", GOOD_TOOLS.values(), ids=GOOD_TOOLS)
async def test_accepts_tools(serve_model, ask, body, tools):
    server = await serve_model([Reply.text("ok")])
    response = await ask(server, {**body, "tools": tools})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(("tools", "reason"), BAD_TOOLS.values(), ids=BAD_TOOLS)
async def test_refuses_tools(serve_model, ask, body, tools, reason):
    server = await serve_model([Reply.text("ok")])
    response = await ask(server, {**body, "tools": tools})
    assert response.status_code == 400
    assert reason in response.json()["error"]["message"]


RAW = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}'
BAD_BYTES = {
    "bytes that are not UTF-8": (RAW % b"caf\xe9", "not valid JSON"),
    "half a character": (RAW % "é".encode()[:1], "not valid JSON"),
    "a surrogate in UTF-8": (RAW % b"\xed\xa0\x80", "not valid JSON"),
    "an escaped NUL": (RAW % rb"a\u0000b", "U+0000"),
    "a NUL byte": (RAW % b"a\0b", "not valid JSON"),
    "an escaped high surrogate": (RAW % rb"a\ud83d", "not valid JSON"),
    "a high surrogate before text": (RAW % rb"a\ud83dxxxxxxxx", "not valid JSON"),
    "an escaped low surrogate": (RAW % rb"a\uDE00xxxxxxxx", "not valid JSON"),
    "two high surrogates": (RAW % rb"a\ud83d\ud83dxxxxxxxx", "not valid JSON"),
    "NUL beside a number beyond a float": (
        RAW[:-1] % rb"a\u0000b" + b',"temperature":1e999}',
        "U+0000",
    ),
    "NUL in a key": (b'{"a\\u0000":1,' + RAW[1:] % b"a", "U+0000"),
    "NaN": (RAW[:-1] % b"a" + b',"temperature":NaN}', "not valid JSON"),
    "a body cut off": (RAW[:-3], "not valid JSON"),
    "two values": (RAW % b"a" + b"{}", "not valid JSON"),
    "a body that is no object": (b"[]", "must be a JSON object"),
    "no body": (b"", "not valid JSON"),
    "endless nesting": (b"[" * 100_000, "not valid JSON"),
}


@pytest.mark.parametrize(("raw", "reason"), BAD_BYTES.values(), ids=BAD_BYTES)
async def test_refuses_bytes(serve_model, ask, raw, reason):
    server = await serve_model([Reply.text("ok")])
    response = await ask(server, raw)
    assert response.status_code == 400
    assert reason in response.json()["error"]["message"]
    assert server.refusals[0].raw == raw


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"model": ""}, "model"), ({"stream": False}, "stream"), ({"messages": "hi"}, "messages")],
)
async def test_refuses_a_request_of_the_wrong_shape(serve_model, ask, body, change, reason):
    server = await serve_model([Reply.text("ok")])
    response = await ask(server, {**body, **change})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(reason)


async def test_a_lenient_server_takes_what_a_strict_one_refuses(serve_model, ask, body):
    server = await serve_model(lambda request: Reply.text("ok"), strict=False)
    assert (await ask(server, {**body, "messages": [USER, called(CALL)]})).status_code == 200
    assert (await ask(server, RAW % rb"a\u0000\ud83d")).status_code == 200
    assert server.requests[1].messages[0]["content"] == "a\0\ud83d"


@pytest.mark.parametrize("raw", [b"{", b"[]", b'"\xff"', b"[" * 100_000])
async def test_a_lenient_server_still_needs_a_json_object(serve_model, ask, raw):
    server = await serve_model([], strict=False)
    assert (await ask(server, raw)).status_code == 400


async def test_a_refused_request_uses_up_no_reply(serve_model, ask, body):
    server = await serve_model([Reply.text("first")])
    assert (await ask(server, b"{")).status_code == 400
    assert '"first"' in (await ask(server)).text
