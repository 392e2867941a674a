"""Where the task comes from, and what is checked before anything slow."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import termios

import pytest
from dsh_llm_mock_server import Reply


def test_a_dash_reads_the_task_from_stdin_to_its_end(dsh, model, finished):
    server = model([Reply.text("ok")])
    process = dsh.start("headless", "-", stdin=subprocess.PIPE)
    process.stdin.write("zeile eins\nzwei ü\n".encode())
    process.stdin.close()
    process.stdin = None
    assert finished(process).code == 0
    assert server.requests[0].messages[-1]["content"] == "zeile eins\nzwei ü"


def test_a_file_as_stdin_is_read(dsh, model, tmp_path):
    server = model([Reply.text("ok")])
    task = tmp_path / "task.txt"
    task.write_text("from a file")
    with task.open() as stdin:
        assert dsh.run("headless", "-", stdin=stdin).code == 0
    assert server.requests[0].messages[-1]["content"] == "from a file"


def test_with_words_an_open_pipe_is_never_read(dsh, model, tmp_path):
    model([Reply.text("ok")])
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        assert dsh.run("headless", "say hi", stdin=descriptor).code == 0
    finally:
        os.close(descriptor)


def test_with_words_a_closed_stdin_is_no_matter(dsh, model):
    model([Reply.text("ok")])
    closed = ("sh", "-c", 'exec "$@" <&-', "sh")
    dsh.prefix = closed
    assert dsh.run("headless", "say hi").stdout == "ok\n"


def test_as_a_background_job_of_a_terminal_it_is_not_stopped(dsh, model):
    model([Reply.text("ok")])
    controller, terminal = pty.openpty()
    # With job control the job is not the terminal's foreground: reading from it would stop it.
    dsh.prefix = ("bash", "-c", 'set -m; "$@" & wait $!', "bash")
    try:
        process = dsh.start("headless", "say hi", stdin=terminal, preexec_fn=_take_terminal)
        out, _err = process.communicate(timeout=15)
        assert (process.returncode, out) == (0, b"ok\n")
    finally:
        os.close(controller)
        os.close(terminal)


def _take_terminal() -> None:
    """Make standard input the controlling terminal of the new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_dash_with_a_closed_or_empty_stdin_says_what_to_do(dsh, model):
    model([])
    done = dsh.run("headless", "-")
    assert (done.code, done.stdout) == (1, "")
    assert "INVALID_TASK" in done.stderr
    dsh.prefix = ("sh", "-c", 'exec "$@" <&-', "sh")
    closed = dsh.run("headless", "-")
    assert closed.code == 1
    assert "INVALID_TASK" in closed.stderr


@pytest.mark.parametrize("words", [[], ["  "]])
def test_no_task_is_misuse(dsh, model, words):
    model([])
    done = dsh.run("headless", *words)
    assert (done.code, done.stdout) == (1, "")
    assert "a task is required" in done.stderr


def test_help_of_the_run_prints_and_exits(dsh):
    done = dsh.run("headless", "--help")
    assert done.code == 0
    assert "--session-id" in done.stdout
    assert dsh.sessions() == []


def test_without_a_key_one_line_names_the_variable_before_stdin_is_read(dsh, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        done = dsh.run("headless", "-", stdin=descriptor)
    finally:
        os.close(descriptor)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("dsh: MISSING_CREDENTIAL: ")
    assert "DEEPSEEK_API_KEY" in done.stderr
    assert dsh.sessions() == []


def test_a_key_that_cannot_be_one_is_refused_without_showing_it(dsh):
    done = dsh.run("headless", "x", env={"DEEPSEEK_API_KEY": "secret value"})
    assert done.code == 1
    assert "INVALID_CREDENTIAL" in done.stderr
    assert "secret value" not in done.stderr


def test_a_task_that_no_model_accepts_is_refused(dsh, model):
    model([])
    process_args = (b"headless", b"--json", b"bad \xff byte")
    done = dsh.run(*(os.fsdecode(arg) for arg in process_args))
    assert done.code == 1
    assert done.lines[0]["code"] == "INVALID_TASK"


def test_output_that_nobody_reads_ends_the_run(dsh, model, finished):
    model([Reply.call("bash", {"command": "sleep 30", "description": "d"}), Reply.text("x")])
    read, write = os.pipe()
    os.close(read)
    process = dsh.start("headless", "--json", "go", stdout=write)
    os.close(write)
    done = finished(process)
    assert done.code == 1
    assert "Traceback" not in done.stderr
