"""A killed process: what was flushed is there, every call has one result, the model goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest
from dsh_llm_mock_server import MockServer, Reply


def bash(command: str) -> dict[str, str]:
    return {"command": command, "description": "d"}


@pytest.fixture(autouse=True)
def killed(dsh):
    dsh.may_leave_processes = True


def kill(process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_call_cut_by_a_kill_is_unknown_and_the_one_after_it_never_started(dsh, model):
    started = dsh.workspace / "started"
    model(
        [
            Reply.call("bash", bash("touch started; sleep 3; echo x > done"), id="c1").call(
                "read", {"file_path": "a.txt"}, id="c2"
            )
        ]
    )
    process = dsh.start("headless", "--json", "go")
    session_id = json.loads(process.stdout.readline())["sessionId"]
    while not started.exists():
        time.sleep(0.02)
    kill(process)
    server = model([Reply.text("ok")])
    done = dsh.headless("--session-id", session_id, "go on")
    assert (done.code, done.lines[-1]["text"]) == (0, "ok")
    assert server.refusals == []
    messages = server.requests[0].messages
    results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert sorted(results) == ["c1", "c2"]
    assert "unknown" in results["c1"]
    assert "did not run" in results["c2"]


def script(request) -> Reply:
    """Steps with one and two calls, a chatty stream, an answer; from the request alone."""
    since = request.messages
    last_user = max(i for i, m in enumerate(since) if m["role"] == "user")
    step = sum(1 for m in since[last_user:] if m["role"] == "assistant")
    if step == 0:
        return Reply.think("thinking " * 40, chunk_size=9).call("bash", bash("echo one >> log"))
    if step == 1:
        return Reply.call("bash", bash("echo two >> log")).call("bash", bash("echo three >> log"))
    if step == 2:
        return Reply.text("words " * 200, chunk_size=6).call(
            "write", {"file_path": f"f{len(since)}.txt", "content": "x" * 2000}
        )
    return Reply.text("the end " * 50, chunk_size=8)


def check_resumable(dsh, rng: random.Random) -> None:
    """Kill a run at a random moment, then require a clean continuation of what it promised."""
    with MockServer.threaded(script) as server:
        dsh.env |= {"DEEPSEEK_BASE_URL": server.base_url, "DEEPSEEK_API_KEY": "k"}
        process = dsh.start("headless", "--json", "go")
        time.sleep(rng.uniform(0.0, 1.2))
        os.kill(process.pid, signal.SIGKILL)
        out, _err = process.communicate()
        seen = [json.loads(line) for line in out.splitlines()]
        assert server.refusals == []
    if not seen:
        return  # nothing was promised yet
    with MockServer.threaded([Reply.text("resumed")]) as server:
        dsh.env |= {"DEEPSEEK_BASE_URL": server.base_url}
        done = dsh.headless("--session-id", seen[0]["sessionId"], "go on")
        assert (done.code, done.lines[-1]["text"]) == (0, "resumed"), done.stderr
        assert server.refusals == []
        messages = server.requests[0].messages
    said = [m for m in messages if m["role"] == "assistant"]
    called = [call["id"] for m in said for call in m.get("tool_calls", ())]
    answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert called == answered
    # A step begins only after the log of the steps before it was flushed.
    steps = [0, *(i for i, line in enumerate(seen) if line.get("phase") == "step_start")]
    flushed = {line["callId"] for line in seen[: steps[-1]] if line["type"] == "tool_result"}
    assert flushed <= set(answered)


KILLS = int(os.environ.get("DSH_TEST_KILLS", "4"))


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_run_killed_at_any_moment_resumes(dsh, seed):
    check_resumable(dsh, random.Random(seed))
