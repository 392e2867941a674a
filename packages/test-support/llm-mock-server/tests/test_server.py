"""The server: scripts, records, connections, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json

import httpx
import pytest
from dsh_llm_mock_server import MockServer, MockServerError, Reply

pytestmark = pytest.mark.anyio

POST = b"POST /chat/completions HTTP/1.1\r\nhost: x\r\n"


async def read_response(reader: asyncio.StreamReader) -> bytes:
    """One response with its terminator, chunked or of a known length."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head:
        return head + await reader.readuntil(b"\r\n0\r\n\r\n")
    [length] = [line for line in head.split(b"\r\n") if line.startswith(b"content-length")]
    return head + await reader.readexactly(int(length.split(b":")[1]))


async def test_replies_come_in_order_then_the_script_is_exhausted(serve_model, ask):
    server = await serve_model([Reply.text("one"), Reply.text("two")])
    assert '"one"' in (await ask(server)).text
    assert '"two"' in (await ask(server)).text
    response = await ask(server)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "MOCK_SCRIPT_EXHAUSTED"
    assert [request.number for request in server.requests] == [1, 2, 3]


async def test_a_generator_is_asked_only_when_a_request_needs_it(serve_model, ask):
    asked = []

    def script():
        for number in range(2):
            asked.append(number)
            yield Reply.text(str(number))

    server = await serve_model(script())
    assert asked == []
    await ask(server)
    assert asked == [0]


async def test_a_function_makes_the_reply_from_the_request(serve_model, ask, body):
    server = await serve_model(lambda request: Reply.text(request.messages[-1]["content"].upper()))
    assert '"HI"' in (await ask(server)).text


async def test_an_async_function_may_wait_before_it_replies(serve_model, ask):
    gate = asyncio.Event()

    async def respond(request):
        await gate.wait()
        return Reply.text("late")

    server = await serve_model([respond])
    asking = asyncio.ensure_future(ask(server))
    assert (await server.wait_for_request()).outcome is None
    gate.set()
    assert '"late"' in (await asking).text
    assert await server.wait_for_outcome() == "completed"


async def test_an_error_of_a_reply_function_is_raised_when_the_context_ends(ask):
    def respond(request):
        raise AssertionError("no system prompt")

    with pytest.raises(AssertionError, match="no system prompt"):
        async with MockServer(respond) as server:
            response = await ask(server)
            assert response.status_code == 500
            assert response.json()["error"]["code"] == "MOCK_SCRIPT_FAILED"


async def test_an_error_of_a_reply_function_does_not_hide_the_error_of_the_test(ask):
    with pytest.raises(KeyError):
        async with MockServer([lambda request: 1 / 0]) as server:
            await ask(server)
            raise KeyError("of the test")


async def test_requests_are_recorded(serve_model, ask, body):
    server = await serve_model([Reply.text("ok")])
    await ask(server, path="/beta/chat/completions?x=1", headers={"Authorization": "Bearer k"})
    [request] = server.requests
    assert request.path == "/beta/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    assert "Bearer" not in repr(request)
    assert request.body == body
    assert request.messages == body["messages"]
    assert request.time > 1_700_000_000
    assert request.outcome == "completed"


async def test_on_record_sees_requests_and_refusals_and_cannot_break_a_reply(ask):
    seen = []

    def observe(record):
        seen.append(record)
        raise OSError("disk full")

    async with MockServer([Reply.text("ok")], on_record=observe) as server:
        assert (await ask(server, b"{")).status_code == 400
        assert (await ask(server)).status_code == 200
        assert seen == [*server.refusals, *server.requests]


async def test_only_the_required_key_is_let_in(serve_model, ask):
    server = await serve_model([Reply.text("ok")], require_key="k1")
    for headers in ({}, {"authorization": "Bearer k2"}, {"authorization": "k1"}):
        assert (await ask(server, headers=headers)).status_code == 401
    assert (await ask(server, headers={"authorization": "Bearer k1"})).status_code == 200
    assert [refusal.status for refusal in server.refusals] == [401, 401, 401]


async def test_other_paths_and_methods_are_refused(serve_model, ask):
    server = await serve_model([])
    assert (await ask(server, path="/models")).status_code == 404
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(server.base_url + "/chat/completions")
    assert response.status_code == 405
    assert [refusal.status for refusal in server.refusals] == [404, 405]


async def test_waiting_for_a_request_returns_it_whenever_it_comes(serve_model, ask):
    server = await serve_model([Reply.text("1"), Reply.text("2")])
    second = asyncio.ensure_future(server.wait_for_request(2))
    await ask(server)
    assert not second.done()
    await ask(server)
    assert (await second).number == 2
    assert (await server.wait_for_request(1)).number == 1


async def test_waiting_in_vain_names_what_was_refused(serve_model, ask):
    server = await serve_model([])
    await ask(server, path="/models")
    with pytest.raises(MockServerError, match="no such path: /models") as caught:
        await server.wait_for_request(timeout_s=0.01)
    assert caught.value.code == "MOCK_WAIT_TIMEOUT"


async def test_waiting_ends_when_the_server_closes():
    async with MockServer([]) as server:
        waiting = asyncio.ensure_future(server.wait_for_request())
        await asyncio.sleep(0)
        await server.aclose()
        with pytest.raises(MockServerError) as caught:
            await waiting
    assert caught.value.code == "MOCK_CLOSED"


async def test_closing_twice_is_safe_and_frees_stalled_and_idle_sockets(body, caplog):
    server = MockServer([Reply.stall(), Reply.text("a").stall(), Reply.text("done")])
    await server.start()
    data = json.dumps(body).encode()
    pairs = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
    for number, (_reader, writer) in enumerate(pairs[:3], 1):
        writer.write(POST + b"content-length: %d\r\n\r\n" % len(data) + data)
        await server.wait_for_request(number)
    assert await server.wait_for_outcome(3) == "completed"
    await server.aclose()
    await server.aclose()
    for reader, writer in pairs:
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        assert reader.at_eof() or reader.exception()
        writer.close()
    assert [r.outcome for r in server.requests] == ["server_closed", "server_closed", "completed"]
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_closing_many_times_at_once_is_safe():
    server = MockServer([])
    await server.start()
    _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await asyncio.gather(*(server.aclose() for _ in range(3)))
    writer.close()


async def test_a_reply_function_can_close_the_server(body):
    async def respond(request):
        await server.aclose()
        return Reply.text("late")

    server = MockServer(respond)
    await server.start()
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(server.base_url + "/chat/completions", json=body)


async def test_a_server_that_never_started_has_no_address_but_closes():
    server = MockServer([])
    with pytest.raises(MockServerError) as caught:
        _ = server.base_url
    assert caught.value.code == "MOCK_NOT_STARTED"
    await server.aclose()


async def test_a_server_starts_once():
    async with MockServer([]) as server:
        with pytest.raises(MockServerError) as caught:
            await server.start()
    assert caught.value.code == "MOCK_ALREADY_STARTED"


async def test_connections_are_kept_and_requests_may_be_sent_ahead(serve_model, body):
    server = await serve_model([Reply.text("one"), Reply.status(429), Reply.text("three")])
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write((POST + b"content-length: %d\r\n\r\n" % len(data) + data) * 3)
    assert b'"one"' in await read_response(reader)
    assert b"429 Too Many Requests" in await read_response(reader)
    assert b'"three"' in await read_response(reader)
    writer.close()


async def test_connection_close_is_honoured(serve_model, body):
    server = await serve_model([Reply.text("one")])
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    assert (await reader.read()).endswith(b"\r\n0\r\n\r\n")
    writer.close()


async def test_a_chunked_request_split_within_a_character_is_read(serve_model, body):
    server = await serve_model([Reply.text("ok")])
    body["messages"][0]["content"] = "naïve 😀"
    data = json.dumps(body, ensure_ascii=False).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(POST + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    for start in range(0, len(data), 3):
        piece = data[start : start + 3]
        writer.write(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
    writer.write(b"0\r\ntrailer: 1\r\n\r\n")
    assert b"200 OK" in await read_response(reader)
    assert server.requests[0].messages[0]["content"] == "naïve 😀"
    writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"POST /chat/completions HTTP/1.0\r\n\r\n",
        POST + b"no header\r\n\r\n",
        POST + b"content-length: many\r\n\r\n",
        POST + b"content-length: -1\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
        POST + b"x: " + b"y" * (1 << 20) + b"\r\n\r\n",
    ],
    ids=["words", "http 1.0", "header", "length", "negative", "chunk", "long head"],
)
async def test_what_is_no_http_is_refused_and_the_connection_closed(serve_model, sent):
    server = await serve_model([])
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 400 Bad Request\r\n"
    with contextlib.suppress(ConnectionResetError):  # unread bytes make a close a reset
        await reader.read()
    assert server.refusals[0].status == 400
    writer.close()


async def test_a_client_that_leaves_within_its_request_does_no_harm(serve_model, ask):
    server = await serve_model([Reply.text("ok")])
    for sent in (b"", b"POST /ch", POST + b"content-length: 100\r\n\r\nabc"):
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        writer.close()
        await writer.wait_closed()
    assert (await ask(server)).status_code == 200


async def test_many_clients_are_served_at_once(serve_model, ask):
    arrived = asyncio.Event()

    async def respond(request):
        if request.number == 20:
            arrived.set()
        await arrived.wait()
        return Reply.text(str(request.number))

    server = await serve_model(respond)
    responses = await asyncio.gather(*(ask(server) for _ in range(20)))
    assert all(response.status_code == 200 for response in responses)


async def test_an_ipv6_address_is_bracketed(ask):
    try:
        async with MockServer([Reply.text("ok")], host="::1") as server:
            assert server.base_url == f"http://[::1]:{server.port}"
            assert (await ask(server)).status_code == 200
    except OSError:
        pytest.skip("no IPv6 loopback here")
