"""Failure is visible to a script: the exit status, one line with a code, no half answer."""

from __future__ import annotations

import pytest
from dsh_llm_mock_server import Reply


@pytest.fixture
def quick(dsh, tmp_path):
    """Retries without waiting."""
    patch = tmp_path / "fast.yml"
    patch.write_text(
        "- id: llm-deepseek\n"
        "  config:\n"
        "    baseURL: !expr \"env.get('DEEPSEEK_BASE_URL')\"\n"
        "    streamIdleTimeoutMs: 300\n"
        "    retryPolicy:\n"
        "      mode: normal\n"
        "      backoff: {initialDelayMs: 1, maxDelayMs: 2}\n"
    )

    def run(*args: str):
        return dsh.run("--patch", str(patch), "headless", "--json", *args)

    return run


ONCE = [
    (401, "AUTH"),
    (402, "QUOTA"),
    (400, "INVALID_REQUEST"),
    (422, "INVALID_REQUEST"),
    (404, "HTTP_404"),
]


@pytest.mark.parametrize(("status", "code"), ONCE)
def test_a_refused_request_is_not_repeated(quick, model, status, code):
    server = model(lambda _request: Reply.status(status, {}, None))
    done = quick("go")
    assert done.code == 1
    assert done.of("error")[0]["code"] == code
    assert done.lines[-1] == {"type": "final", "text": ""}
    assert done.stderr.splitlines()[-1].startswith(f"dsh: {code}: ")
    assert len(server.requests) == 1


def test_a_quota_text_in_a_429_is_not_repeated(quick, model):
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    server = model(lambda _request: Reply.status(429, {}, body))
    assert quick("go").of("error")[0]["code"] == "QUOTA"
    assert len(server.requests) == 1


REPEATED = [
    (Reply.status(500, {}, None), "SERVER"),
    (Reply.status(503, {}, None), "SERVER"),
    (Reply.status(429, {}, None), "RATE_LIMIT"),
    (Reply.body(b"", "text/event-stream"), "STREAM_CLOSED|EMPTY_RESPONSE"),
    (Reply.text("half").cut(), "TRANSPORT|STREAM_CLOSED"),
    (Reply.reset(), "TRANSPORT"),
    (Reply.text("half").stall(None), "TIMEOUT"),
]


@pytest.mark.parametrize(("reply", "codes"), REPEATED)
def test_a_passing_failure_is_repeated_a_bounded_number_of_times(quick, model, reply, codes):
    server = model(lambda _request: reply)
    done = quick("go")
    assert done.code == 1
    assert done.of("error")[0]["code"] in codes.split("|")
    assert done.lines[-1] == {"type": "final", "text": ""}
    assert not done.of("text")
    assert 1 <= len(server.requests) <= 6


def test_a_retry_that_succeeds_is_a_success_with_its_retry_shown(quick, model):
    model([Reply.status(500, {}, None), Reply.text("fine")])
    done = quick("go")
    assert (done.code, done.lines[-1]["text"]) == (0, "fine")
    retry = [line for line in done.of("status") if line["phase"] == "retry"]
    assert [(line["attempt"], line["code"]) for line in retry] == [(1, "SERVER")]


def test_without_json_a_failure_leaves_stdout_empty(dsh, model):
    model(lambda _request: Reply.status(401, {}, None))
    done = dsh.run("headless", "go")
    assert (done.code, done.stdout) == (1, "")


def test_nobody_listening_is_a_transport_failure_that_names_the_host(dsh, quick):
    dsh.env |= {"DEEPSEEK_BASE_URL": "http://127.0.0.1:9", "DEEPSEEK_API_KEY": "k"}
    done = quick("go")
    assert done.code == 1
    assert done.of("error")[0]["code"] == "TRANSPORT"
    assert "127.0.0.1" in done.of("error")[0]["message"]


def test_an_answer_cut_by_the_output_limit_is_no_success(dsh, model):
    model([Reply.text("half an ans").finish("length")])
    done = dsh.headless("go")
    assert done.code == 1
    assert done.of("error")[0]["code"] == "MAX_TOKENS"
    assert done.lines[-1]["text"] == ""


def test_a_failed_session_can_go_on(dsh, model):
    model([Reply.status(401, {}, None)])
    failed = dsh.headless("go")
    model([Reply.text("now it works")])
    again = dsh.headless("--session-id", failed.session_id, "again")
    assert (again.code, again.lines[-1]["text"]) == (0, "now it works")
