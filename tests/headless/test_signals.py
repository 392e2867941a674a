"""Ctrl+C and SIGTERM: the documented status, nothing left behind, a log that goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from dsh_llm_mock_server import Reply

MARKERS = ("dsh-stubborn", "dsh-plain")
COMMAND = f"(trap '' INT; exec -a {MARKERS[0]} sleep 300) & exec -a {MARKERS[1]} sleep 301"


def running() -> list[str]:
    return [
        marker
        for marker in MARKERS
        if subprocess.run(["pgrep", "-f", f"^{marker}"], capture_output=True).returncode == 0
    ]


def until(condition) -> None:
    """Wait for a condition that other processes bring about; the test's own timeout bounds it."""
    while not condition():
        time.sleep(0.02)


def started(dsh, model):
    model([Reply.call("bash", {"command": COMMAND, "description": "d"}, id="c1")])
    process = dsh.start("headless", "--json", "go")
    first = json.loads(process.stdout.readline())
    until(lambda: len(running()) == len(MARKERS))
    return process, first["sessionId"]


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ((signal.SIGINT,), 130),
        ((signal.SIGTERM,), 143),
        ((signal.SIGINT, signal.SIGINT), 130),
        ((signal.SIGTERM, signal.SIGTERM), 143),
    ],
)
def test_an_interrupted_tool_leaves_nothing_behind(dsh, model, finished, signals, code):
    process, session_id = started(dsh, model)
    for number in signals:
        os.kill(process.pid, number)
    done = finished(process)
    assert done.code == code
    until(lambda: not running())
    assert "Traceback" not in done.stderr
    server = model([Reply.text("on we go")])
    resumed = dsh.headless("--session-id", session_id, "go on")
    assert (resumed.code, resumed.lines[-1]["text"]) == (0, "on we go")
    assert server.refusals == []
    answered = [m["tool_call_id"] for m in server.requests[0].messages if m["role"] == "tool"]
    assert answered == ["c1"]


def test_a_single_interrupt_closes_the_turn_in_the_log(dsh, model, finished):
    process, _session = started(dsh, model)
    os.kill(process.pid, signal.SIGINT)
    out = finished(process).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    ends = [line for line in lines if line.get("phase") == "turn_end"]
    assert ends[-1]["reason"]["kind"] == "aborted"
    assert lines[-2]["code"] == "ABORTED"
    assert lines[-1] == {"type": "final", "text": ""}


def test_sigterm_while_the_model_is_asked_ends_the_run(dsh, model, finished):
    server = model([Reply.text("half").stall(None)])
    process = dsh.start("headless", "go")
    server.wait_for_request(1)
    os.kill(process.pid, signal.SIGTERM)
    done = finished(process)
    assert (done.code, done.stdout) == (143, "")


def test_sigterm_before_the_turn_is_a_clean_stop(dsh, model, finished, tmp_path):
    model([])
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        process = dsh.start("headless", "-", stdin=descriptor)
        until(lambda: _catches(process.pid, signal.SIGTERM))
        os.kill(process.pid, signal.SIGTERM)
        assert finished(process).code == 0
    finally:
        os.close(descriptor)


def _catches(pid: int, number: int) -> bool:
    with open(f"/proc/{pid}/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
