"""Streams that are closed, full or unread: the run ends, and says why where it still can."""

from __future__ import annotations

import pytest
from dsh_llm_mock_server import Reply

CALL = Reply.call("bash", {"command": "true", "description": "d"})


def shell(dsh, redirection: str) -> None:
    """Start later runs with a redirection of a shell."""
    dsh.prefix = ("sh", "-c", f'exec "$@" {redirection}', "sh")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_full_standard_output_fails_the_run(dsh, model, flags):
    model([CALL, Reply.text("answer")])
    shell(dsh, ">/dev/full")
    done = dsh.run("headless", *flags, "go")
    assert done.code == 1
    assert done.stderr.splitlines()[-1].startswith("dsh: OUTPUT_FAILED: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_closed_standard_output_is_refused_before_anything_is_asked(dsh, model, flags):
    server = model([Reply.text("answer")])
    shell(dsh, ">&-")
    done = dsh.run("headless", *flags, "go")
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("dsh: OUTPUT_CLOSED: ")
    assert server.requests == []
    assert dsh.sessions() == []


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_standard_error_that_takes_nothing_changes_nothing(dsh, model, redirection):
    model([CALL, Reply.text("answer")])
    shell(dsh, redirection)
    done = dsh.run("headless", "go")
    assert (done.code, done.stdout) == (0, "answer\n")


def test_a_failure_that_can_be_said_nowhere_is_still_a_status(dsh, model):
    model([Reply.status(400, body={"error": {"message": "no", "code": "x"}})])
    shell(dsh, ">/dev/full 2>&-")
    assert dsh.headless("go").code == 1


@pytest.mark.parametrize("source", ["0>unreadable", "</dev/zero"])
def test_a_stdin_that_holds_no_task_is_explained(dsh, model, source):
    model([])
    shell(dsh, source)
    done = dsh.run("headless", "-", stdin=None)
    assert done.code == 1
    assert done.stderr.startswith("dsh: INVALID_TASK: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("question", ["--help", "--version", "--dump-config"])
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_an_answer_that_cannot_be_written_is_one_error(dsh, question, redirection):
    shell(dsh, redirection)
    arguments = ("headless", question) if question == "--dump-config" else (question,)
    done = dsh.run(*arguments)
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("dsh: standard output ")
