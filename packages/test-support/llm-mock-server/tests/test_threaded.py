"""The server in a thread, for blocking code."""

from __future__ import annotations

import http.client
import json
import threading

import pytest
from dsh_llm_mock_server import MockServer, MockServerError, Reply


def post(server, body) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", "/chat/completions", json.dumps(body))
        return connection.getresponse().read()
    finally:
        connection.close()


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "dsh-llm-mock-server"]


def test_blocking_code_is_served_and_the_thread_ends_with_the_context(body):
    with MockServer.threaded([Reply.text("hello")]) as server:
        assert server.base_url == f"http://127.0.0.1:{server.port}"
        assert b'"hello"' in post(server, body)
        assert server.wait_for_request().body == body
        assert server.wait_for_outcome() == "completed"
        assert server.refusals == []
        assert threads()
    assert not threads()
    assert len(server.requests) == 1


def test_strict_and_key_apply_in_a_thread_too(body, serve_model_threaded):
    server = serve_model_threaded([], require_key="k")
    assert b"api key" in post(server, body)
    assert [refusal.status for refusal in server.refusals] == [401]


def test_closing_a_threaded_server_twice_is_safe_and_frees_stalled_sockets(body):
    server = MockServer.threaded([Reply.stall()])
    server.start()
    failed = []

    def client():
        try:
            post(server, body)
        except (http.client.HTTPException, OSError) as error:
            failed.append(error)

    thread = threading.Thread(target=client)
    thread.start()
    server.wait_for_request()
    server.close()
    server.close()
    thread.join()
    assert len(failed) == 1
    assert server.requests[0].outcome == "server_closed"


def test_waiting_on_a_closed_threaded_server_answers_from_its_records(body):
    with MockServer.threaded([Reply.text("a")]) as server:
        post(server, body)
    assert server.wait_for_request(1).number == 1
    with pytest.raises(MockServerError) as caught:
        server.wait_for_request(2)
    assert caught.value.code == "MOCK_CLOSED"


def test_an_error_of_a_reply_function_reaches_the_blocking_test(body):
    def respond(request):
        raise AssertionError("wrong model")

    server = MockServer.threaded(respond)
    with pytest.raises(AssertionError, match="wrong model"), server:
        post(server, body)


def test_an_address_in_use_is_reported_by_start():
    with MockServer.threaded([]) as server, pytest.raises(OSError):
        MockServer.threaded([], port=server.port).start()


def test_a_threaded_server_that_never_started_says_so():
    server = MockServer.threaded([])
    server.close()
    with pytest.raises(MockServerError) as caught:
        _ = server.port
    assert caught.value.code == "MOCK_NOT_STARTED"
