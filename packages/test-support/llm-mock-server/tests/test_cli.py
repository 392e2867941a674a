"""The server as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from dsh_llm_mock_server import MockServerError, Reply, replies_from_json
from dsh_llm_mock_server.__main__ import main

COMMAND = [sys.executable, "-m", "dsh_llm_mock_server"]


@contextmanager
def running(*arguments):
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())["baseURL"]
        finally:
            process.kill()


def post(base_url, body, **headers) -> str:
    request = urllib.request.Request(
        base_url + "/chat/completions", json.dumps(body).encode(), headers
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as response:
        return response.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_base_url_and_ends_cleanly_on_a_signal(body, number):
    with running() as (process, base_url):
        assert "mock model server" in post(base_url, body)
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stdout.read() == ""


def test_it_plays_a_script_and_logs_requests_without_the_key(body, tmp_path):
    script = tmp_path / "script.json"
    script.write_text('[[{"text": "one"}], [{"call": {"name": "bash", "arguments": {"a": 1}}}]]')
    log = tmp_path / "log.jsonl"
    with running("--script", str(script), "--log", str(log), "--require-key", "k") as (_, base_url):
        assert '"one"' in post(base_url, body, Authorization="Bearer k")
        assert '"tool_calls"' in post(base_url, body, Authorization="Bearer k")
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(base_url, body)
        caught.value.close()
        assert caught.value.code == 401
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("number") or line["refused"] for line in lines] == [1, 2, 401]
    assert lines[0]["body"] == body
    assert lines[0]["headers"]["authorization"] == "<hidden>"


def test_a_script_says_everything_that_a_reply_can():
    script = [
        [{"think": "t"}, {"text": {"text": "abc", "chunk_size": 2}}, {"pace": 5}, {"split": 7}],
        [{"call": {"name": "bash", "arguments": "{", "id": None, "index": 2}}, {"cut": None}],
        [{"status": {"code": 429, "headers": {"retry-after": "1"}}}],
        [{"comment": None}, {"raw": "null"}, {"pause": 1}, {"stall": 2}, {"reset": None}],
        [{"text": "x"}, {"finish": {"reason": "length", "usage": {}}}, {"eof": None}],
        [{"body": ""}],
    ]
    assert replies_from_json(json.dumps(script).encode()) == (
        Reply.think("t").text("abc", chunk_size=2).pace(5).split(7),
        Reply.call("bash", "{", id=None, index=2).cut(),
        Reply.status(429, {"retry-after": "1"}),
        Reply.comment().raw("null").pause(1).stall(2).reset(),
        Reply.text("x").finish("length", usage={}).eof(),
        Reply.body(b""),
    )


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("{}", "not an array"),
        ('[[{"text": "a", "cut": null}]]', "reply 1, step 1"),
        ('[[{"text": "a"}, {"sing": "b"}]]', "reply 1, step 2: 'sing' is not one of"),
        ('[[], [{"text": {"size": 1}}]]', "reply 2, step 1"),
        ('[[{"cut": null}, {"text": "a"}]]', "reply 1, step 2"),
        ('[[{"raw": 5}]]', "reply 1, step 1"),
    ],
)
def test_a_bad_script_is_refused_with_the_place(script, place):
    with pytest.raises(MockServerError, match=place) as caught:
        replies_from_json(script.encode())
    assert caught.value.code == "MOCK_BAD_SCRIPT"


def test_a_missing_script_fails_with_one_line(tmp_path, capsys):
    assert main(["--script", str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
