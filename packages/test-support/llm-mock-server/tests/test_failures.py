"""Every way in which a provider lets its client down."""

from __future__ import annotations

import httpx
import pytest
from dsh_llm_mock_server import Reply

pytestmark = pytest.mark.anyio


async def test_cut_first_closes_without_a_response(serve_model, ask):
    server = await serve_model([Reply.cut()])
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(server)
    assert await server.wait_for_outcome() == "cut"


@pytest.mark.parametrize(
    ("reply", "received"),
    [(Reply.status(200).cut(), b""), (Reply.text("part").cut(), b'"content":"part"')],
    ids=["after the head", "in mid-stream"],
)
async def test_cut_breaks_the_body_off(serve_model, body, reply, received):
    server = await serve_model([reply])
    got = b""
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream(
                "POST", server.base_url + "/chat/completions", json=body
            ) as response:
                assert response.status_code == 200
                async for piece in response.aiter_raw():
                    got += piece
    assert received in got
    assert b"[DONE]" not in got


async def test_reset_drops_the_connection(serve_model, ask):
    server = await serve_model([Reply.reset()])
    with pytest.raises(httpx.ReadError):
        await ask(server)
    assert await server.wait_for_outcome() == "reset"


async def test_eof_ends_the_body_cleanly_without_done(serve_model, ask):
    server = await serve_model([Reply.eof(), Reply.text("part").eof()])
    assert (await ask(server)).content == b""
    partial = (await ask(server)).text
    assert '"part"' in partial
    assert "[DONE]" not in partial


async def test_a_stall_holds_back_the_head_until_the_client_leaves(serve_model, body):
    server = await serve_model([Reply.stall()])
    async with httpx.AsyncClient(trust_env=False, timeout=0.2) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(server.base_url + "/chat/completions", json=body)
    assert await server.wait_for_outcome() == "client_closed"


async def test_a_stall_in_mid_stream_delivers_what_came_before(serve_model, body):
    server = await serve_model([Reply.text("part").stall()])
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("POST", server.base_url + "/chat/completions", json=body) as response,
    ):
        first = await anext(response.aiter_raw())
    assert b'"part"' in first
    assert await server.wait_for_outcome() == "client_closed"


async def test_a_stall_that_ends_lets_the_reply_go_on(serve_model, ask):
    server = await serve_model([Reply.text("a").stall(0.01).text("b")])
    response = await ask(server)
    assert '"a"' in response.text
    assert '"b"' in response.text


async def test_a_client_that_leaves_ends_an_endless_reply(serve_model, body):
    server = await serve_model([Reply.text("x" * 1000, chunk_size=1).pace(60_000)])
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("POST", server.base_url + "/chat/completions", json=body) as response,
    ):
        await anext(response.aiter_raw())
    assert await server.wait_for_outcome() == "client_closed"


async def test_a_client_that_reads_nothing_holds_the_server_back_until_it_leaves(serve_model, body):
    server = await serve_model([Reply.text("x" * (32 << 20))])
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("POST", server.base_url + "/chat/completions", json=body),
    ):
        assert (await server.wait_for_request()).outcome is None
    assert await server.wait_for_outcome() == "client_closed"


async def test_an_empty_body_is_empty(serve_model, ask):
    server = await serve_model([Reply.body(b"")])
    response = await ask(server)
    assert (response.status_code, response.content) == (200, b"")


async def test_a_wrong_content_type_comes_whole_or_on_a_stream(serve_model, ask):
    html = Reply.body("<html></html>", "text/html")
    stream = Reply.status(200, {"Content-Type": "application/json"}).text("x")
    server = await serve_model([html, stream])
    assert (await ask(server)).headers["content-type"] == "text/html"
    response = await ask(server)
    assert response.headers["content-type"] == "application/json"
    assert response.text.endswith("data: [DONE]\n\n")


async def test_malformed_frames_are_sent_literally(serve_model, ask):
    server = await serve_model([Reply.raw('{"choices":[').verbatim(b"event without a colon\n\n")])
    text = (await ask(server)).text
    assert text.startswith('data: {"choices":[\n\nevent without a colon\n\n')


async def test_an_error_object_can_come_within_a_stream(serve_model, ask):
    server = await serve_model([Reply.raw('{"error":{"message":"busy"}}').finish(None)])
    assert (await ask(server)).text.startswith('data: {"error":{"message":"busy"}}\n\n')


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "unknown_error"),
        (404, "invalid_request_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
        (529, "server_error"),
    ],
)
async def test_a_status_without_a_body_has_the_error_object(serve_model, ask, code, kind):
    server = await serve_model([Reply.status(code)])
    response = await ask(server)
    assert response.status_code == code
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == kind


async def test_a_status_carries_headers_and_body(serve_model, ask):
    body = {"error": {"message": "quota", "code": "insufficient_quota"}}
    server = await serve_model(
        [
            Reply.status(429, {"Retry-After": "2"}, body),
            Reply.status(502, body="<html>bad gateway</html>"),
        ]
    )
    limited = await ask(server)
    assert (limited.headers["retry-after"], limited.json()) == ("2", body)
    gateway = await ask(server)
    assert (gateway.status_code, gateway.text) == (502, "<html>bad gateway</html>")
    assert gateway.headers["content-type"].startswith("text/plain")


async def test_responses_carry_a_request_id(serve_model, ask):
    server = await serve_model([Reply.status(500), Reply.status(500, {"x-request-id": "mine"})])
    assert (await ask(server)).headers["x-request-id"] == "mock-1"
    assert (await ask(server)).headers["x-request-id"] == "mine"
