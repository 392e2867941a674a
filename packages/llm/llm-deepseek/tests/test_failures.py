from __future__ import annotations

import asyncio
import logging
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from dsh_cordis import AbortController, ConfigError
from dsh_llm import Aborted, BlockStart, Finish, TextDelta
from dsh_llm_mock_server import Reply

pytestmark = pytest.mark.anyio


def refusal(message: str, code: str = "x") -> dict[str, Any]:
    return {"error": {"message": message, "type": "t", "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, None, "INVALID_REQUEST"),
        (400, refusal("too long", "context_length_exceeded"), "CONTEXT_WINDOW_EXCEEDED"),
        (401, None, "AUTH"),
        (402, None, "QUOTA"),
        (403, refusal("insufficient_quota"), "AUTH"),
        (404, refusal("no such model"), "HTTP_404"),
        (413, refusal("x", "context_length_exceeded"), "INVALID_REQUEST"),
        (422, None, "INVALID_REQUEST"),
        (429, None, "RATE_LIMIT"),
        (429, refusal("x", "insufficient_quota"), "QUOTA"),
        (500, None, "SERVER"),
        (503, None, "SERVER"),
        (502, "<html>bad gateway</html>", "SERVER"),
        (307, "moved", "HTTP_307"),
    ],
)
async def test_a_status_becomes_its_code_after_one_request(
    serve_model: Any, mount: Any, status: int, body: Any, code: str
) -> None:
    server = await serve_model([Reply.status(status, {}, body)])
    model = await mount(server)
    failure = await model.failure()
    assert (failure.code, failure.status) == (code, status)
    assert len(server.requests) == 1


async def test_the_providers_words_and_request_id_are_kept(serve_model: Any, mount: Any) -> None:
    reply = Reply.status(400, {"x-request-id": "r-7"}, refusal("temperature is 9"))
    model = await mount(await serve_model([reply]))
    failure = await model.failure()
    assert (failure.message, failure.request_id) == ("temperature is 9", "r-7")


async def test_a_refusal_whose_body_breaks_off_is_still_that_refusal(mount: Any) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 99\r\n\r\nno")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        model = await mount(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        failure = await model.failure()
    assert (failure.code, failure.status) == ("AUTH", 401)


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [("2", 2000), ("1.5", 1500), ("0", None), ("-3", None), ("soon", None), ("9" * 400, None)],
)
async def test_retry_after_is_read_in_seconds(
    serve_model: Any, mount: Any, value: str, expected_ms: float | None
) -> None:
    model = await mount(await serve_model([Reply.status(429, {"retry-after": value})]))
    failure = await model.failure()
    assert (failure.provider_retry_after_ms or None) == expected_ms


@pytest.mark.parametrize(("hours", "future"), [(1, True), (-1, False)])
async def test_retry_after_is_read_as_a_date_in_the_future(
    serve_model: Any, mount: Any, hours: int, future: bool
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
    model = await mount(await serve_model([Reply.status(429, {"retry-after": date})]))
    failure = await model.failure()
    assert (3_000_000 < (failure.provider_retry_after_ms or 0) < 3_700_000) is future


async def test_a_refused_connection_names_the_host(mount: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        model = await mount(f"http://127.0.0.1:{taken.getsockname()[1]}")
        failure = await model.failure()
    assert failure.code == "TRANSPORT"
    assert "127.0.0.1" in failure.message


async def test_a_name_that_does_not_resolve_names_the_host(mount: Any) -> None:
    model = await mount("http://nothing.localhost.invalid:9")
    failure = await model.failure()
    assert failure.code == "TRANSPORT"
    assert "nothing.localhost.invalid" in failure.message


@pytest.mark.parametrize(
    "reply", [Reply.stall(), Reply.status(200).stall(), Reply.text("half").stall()]
)
async def test_silence_closes_the_connection(serve_model: Any, mount: Any, reply: Reply) -> None:
    server = await serve_model([reply])
    model = await mount(server, streamIdleTimeoutMs=100)
    failure = await model.failure()
    assert failure.code == "TIMEOUT"
    assert await server.wait_for_outcome() == "client_closed"


async def test_comments_keep_a_stream_alive_and_yield_nothing(serve_model: Any, mount: Any) -> None:
    reply = Reply()
    for _ in range(8):
        reply = reply.comment().pause(150)
    model = await mount(await serve_model([reply.text("x")]), streamIdleTimeoutMs=600)
    chunks = await model.ask()
    assert chunks[:2] == [BlockStart(0, "text"), TextDelta(0, "x")]


async def test_a_slow_consumer_is_no_silence(serve_model: Any, mount: Any) -> None:
    import anyio

    reply = Reply.text("one").text("two")
    model = await mount(await serve_model([reply]), streamIdleTimeoutMs=100)
    last = None
    async for chunk in model.llm.stream(await model.options()):
        if isinstance(chunk, TextDelta):
            await anyio.sleep(0.2)
        last = chunk
    assert isinstance(last, Finish)
    assert last.reason.__class__.__name__ == "Stop"


async def test_a_stream_that_never_ends_is_bounded_as_a_whole(serve_model: Any, mount: Any) -> None:
    server = await serve_model([Reply.text("x" * 400, chunk_size=1).pace(20)])
    model = await mount(server, streamTotalTimeoutMs=300)
    failure = await model.failure()
    assert failure.code == "TIMEOUT"
    assert "0.3 s" in failure.message
    assert await server.wait_for_outcome() == "client_closed"


@pytest.mark.parametrize("reply", [Reply.stall(), Reply.text("half").stall()])
async def test_an_abort_closes_the_connection_at_once(
    serve_model: Any, mount: Any, reply: Reply
) -> None:
    controller = AbortController()
    server = await serve_model([reply])
    model = await mount(server)
    options = await model.options(signal=controller.signal)

    import anyio

    chunks: list[Any] = []

    async def consume() -> None:
        chunks.extend([chunk async for chunk in model.llm.stream(options)])

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await server.wait_for_request()
        controller.abort("user")
    assert isinstance(chunks[-1], Finish)
    assert isinstance(chunks[-1].reason, Aborted)
    assert chunks[-1].reason.failure.code == "ABORTED"
    assert await server.wait_for_outcome() == "client_closed"


async def test_an_aborted_request_is_not_sent(serve_model: Any, mount: Any) -> None:
    controller = AbortController()
    controller.abort()
    server = await serve_model([Reply.text("x")])
    model = await mount(server)
    (only,) = await model.ask(signal=controller.signal)
    assert isinstance(only.reason, Aborted)
    assert server.requests == []


async def test_leaving_early_closes_the_connection(serve_model: Any, mount: Any) -> None:
    server = await serve_model([Reply.text("half").stall()])
    model = await mount(server)
    stream = model.llm.stream(await model.options())
    await anext(stream)
    await stream.aclose()
    assert await server.wait_for_outcome() == "client_closed"


async def test_the_key_is_in_no_failure_and_no_log(
    serve_model: Any, mount: Any, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = await serve_model(
        [
            Reply.status(401, body=refusal(f"incorrect key {key}")),
            Reply.raw(f'{{"error":{{"message":"bad {key}"}}}}'),
            Reply.body(f"<p>{key}</p>", "text/html"),
            Reply.raw(f"oops {key}"),
        ]
    )
    model = await mount(server)
    for _ in range(4):
        failure = await model.failure()
        assert key not in failure.message
        assert "***" in failure.message
    assert key not in caplog.text
    assert key not in repr(model.llm._routes)


async def test_without_a_key_the_remedy_is_named_and_nothing_is_sent(
    serve_model: Any, mount: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve_model([Reply.text("ok")])
    model = await mount(server, apiKeyEnv="MY_KEY")
    reason = model.llm.readiness("deepseek-official")
    assert reason.code == "MISSING_CREDENTIAL"
    assert "MY_KEY" in reason.message
    assert await model.failure() == reason
    assert [info.name for info in model.llm.list_providers()] == ["DeepSeek"]
    monkeypatch.setenv("MY_KEY", "")
    assert (await model.failure()).code == "MISSING_CREDENTIAL"
    assert server.requests == []
    monkeypatch.setenv("MY_KEY", " sk-2\n")
    assert model.llm.readiness() is None
    await model.ask()
    assert server.requests[0].headers["authorization"] == "Bearer sk-2"


async def test_a_key_with_illegal_characters_is_refused_unseen(
    serve_model: Any, mount: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk secret")
    model = await mount(await serve_model([]))
    failure = await model.failure()
    assert failure.code == "INVALID_CREDENTIAL"
    assert "secret" not in failure.message


@pytest.mark.parametrize("status", [400, 500])
async def test_a_body_too_deep_to_read_keeps_its_status(
    serve_model: Any, mount: Any, status: int
) -> None:
    reply = Reply.status(status, {"content-type": "application/json"}, "[" * 60_000)
    model = await mount(await serve_model([reply]))
    failure = await model.failure()
    assert failure.code == {400: "INVALID_REQUEST", 500: "SERVER"}[status]


@pytest.mark.parametrize("payload", ['{"error":' + "[" * 60_000, "[" * 60_000])
async def test_an_event_too_deep_to_read_is_malformed(
    serve_model: Any, mount: Any, payload: str
) -> None:
    model = await mount(await serve_model([Reply.raw(payload)]))
    assert (await model.failure()).code == "MALFORMED_RESPONSE"


async def test_a_refusal_is_told_although_its_body_never_ends(serve_model: Any, mount: Any) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 99\r\n\r\nno")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        model = await mount(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        failure = await model.failure()
        await model.handle.dispose()
    assert (failure.code, failure.status) == ("AUTH", 401)


async def test_a_redirect_says_where_to_but_not_what_is_secret_in_it(
    serve_model: Any, mount: Any
) -> None:
    headers = {"location": "https://other.example/v2?token=s3cret"}
    model = await mount(await serve_model([Reply.status(308, headers, "")]))
    failure = await model.failure()
    assert failure.code == "HTTP_308"
    assert "https://other.example/v2" in failure.message
    assert "s3cret" not in failure.message


@pytest.mark.parametrize("visible", [4, 5, 17])
async def test_a_text_cut_in_the_middle_of_the_key_shows_none_of_it(
    serve_model: Any, mount: Any, key: str, visible: int
) -> None:
    body = "x" * (499 - visible) + key + " and more"
    model = await mount(await serve_model([Reply.status(401, {}, body)]))
    failure = await model.failure()
    assert key[:visible] not in failure.message.replace("xx", "")
    assert "***…" in failure.message


async def test_a_key_that_comes_back_as_the_request_id_is_not_kept(
    serve_model: Any, mount: Any, key: str
) -> None:
    model = await mount(await serve_model([Reply.status(400, {"x-request-id": key}, "no")]))
    assert key not in (await model.failure()).request_id


@pytest.mark.parametrize(
    "answer",
    [
        "HTTP/1.1 4{key}\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx {key}\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{key}\r\n",
    ],
)
async def test_a_broken_answer_that_holds_the_key_is_told_without_it(
    mount: Any, key: str, answer: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer.format(key=key).encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        model = await mount(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        failure = await model.failure()
    assert failure.code == "TRANSPORT"
    assert key not in failure.message
    assert "***" in failure.message


@pytest.mark.parametrize("ending", ["Bearer {key}", "{key}", "no\nword", "x" * 200])
async def test_an_ending_that_is_no_word_gives_no_code(
    serve_model: Any, mount: Any, key: str, ending: str
) -> None:
    model = await mount(await serve_model([Reply.text("x").finish(ending.format(key=key))]))
    failure = await model.failure()
    assert failure.code == "MALFORMED_RESPONSE"
    assert key not in failure.message


async def test_a_key_in_a_variable_that_commands_inherit_is_refused(mount: Any) -> None:
    with pytest.raises(ConfigError, match="MODEL_ACCESS"):
        await mount("http://127.0.0.1:9", apiKeyEnv="MODEL_ACCESS")
