"""Places and limits that a run meets on real machines."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any

import pytest
from dsh_llm_mock_server import MockServer, Reply

NO_SANDBOX = "dsh: no sandbox: commands and file changes have your own rights\n"


def file_limit(size: int) -> Callable[[], None]:
    """Lets no file of the run grow beyond `size`, as a full disk would."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def noise(request: Any) -> Reply:
    """Calls for incompressible output, then an answer."""
    done = sum(message["role"] == "assistant" for message in request.messages)
    if done < 6 and "again" not in str(request.messages):
        command = "head -c 3000 /dev/urandom | base64 -w0"
        return Reply.call("bash", {"command": command, "description": "noise"})
    return Reply.text("done")


def test_a_disk_that_fills_up_is_one_error_and_the_session_goes_on_afterwards(
    dsh: Any, model: Callable[..., MockServer]
) -> None:
    server = model(noise)
    dsh.headless("--help")  # the profile is there before the disk is full
    full = dsh.headless("fill it", preexec_fn=file_limit(12_000))
    assert full.code == 1
    assert full.of("error")[0]["code"] == "STORAGE_FULL"
    assert full.stderr.startswith(f"{NO_SANDBOX}dsh: STORAGE_FULL: ")
    assert full.stderr.count("\n") == 2
    (file,) = dsh.sessions()
    before = file.read_bytes()
    still = dsh.headless("--session-id", full.session_id, "again", preexec_fn=file_limit(10))
    assert still.code == 1
    assert file.read_bytes() == before
    later = dsh.headless("--session-id", full.session_id, "again")
    assert (later.code, later.lines[-1]["text"]) == (0, "done")
    assert file.read_bytes().startswith(before)
    assert server.refusals == []


def test_a_base_url_that_is_none_is_told_instead_of_the_missing_route(dsh: Any) -> None:
    run = dsh.run("headless", "hi", env={"DEEPSEEK_API_KEY": "k", "DEEPSEEK_BASE_URL": "ftp://x"})
    assert run.code == 1
    assert "baseURL must be an http or https URL" in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_working_directory_whose_name_is_no_text_is_named(
    dsh: Any, model: Callable[..., MockServer]
) -> None:
    server = model([Reply.text("never")])
    odd = os.fsencode(dsh.workspace) + b"/\xff"
    os.mkdir(odd)
    dsh.workspace = odd
    run = dsh.headless("hi")
    assert run.code == 1
    assert run.of("error")[0]["code"] == "INVALID_HEADER"
    assert "cwd" in run.stderr
    assert server.requests == []


@pytest.mark.parametrize("name", ["a grüße", "new\nline", "$HOME %s{}"])
def test_a_home_of_any_name_keeps_its_sessions(
    dsh: Any, model: Callable[..., MockServer], name: str
) -> None:
    model([Reply.text("one"), Reply.text("two")])
    dsh.home = dsh.home / name
    first = dsh.headless("hi")
    assert dsh.headless("--session-id", first.session_id, "on").lines[-1]["text"] == "two"


@pytest.mark.parametrize("session_id", ["../x", "/etc", "x" * 5000])
def test_a_session_id_is_never_a_path(
    dsh: Any, model: Callable[..., MockServer], session_id: str
) -> None:
    model([Reply.text("never")])
    run = dsh.headless(f"--session-id={session_id}", "hi")
    assert (run.code, run.of("error")[0]["code"]) == (1, "SESSION_NOT_FOUND")
    assert not list(dsh.home.glob("sessions/**/*"))


def test_forty_descriptors_are_enough(dsh: Any, model: Callable[..., MockServer]) -> None:
    calls = Reply()
    for number in range(20):
        calls = calls.call("bash", {"command": f"echo {number}", "description": "n"})
    model([calls, Reply.text("done")])
    run = dsh.headless(
        "hi", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    )
    assert [line["status"] for line in run.of("tool_result")] == ["completed"] * 20
    assert run.lines[-1]["text"] == "done"
