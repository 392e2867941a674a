"""What a person sees who tries the product without a key."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from dsh_demo import _project as project_of
from dsh_demo import main
from dsh_demo._project import BUG, FIX, MODULE

ESCAPE = "\x1b"


def test_the_project_fails_at_first_and_only_the_bug_is_in_the_way(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project_of.create_project(project)
    assert not project_of.tests_pass(project)
    assert MODULE.count(BUG) == 1
    (project / "prices.py").write_text(MODULE.replace(BUG, FIX))
    assert project_of.tests_pass(project)


def test_a_demo_ends_with_tests_that_pass_and_says_where_everything_is(demo) -> None:
    code, out, err = demo.run()
    assert code == 0
    assert ESCAPE not in out + err
    lines = out.splitlines()
    assert "FAILED (failures=1)" in out
    assert [line.split()[1] for line in lines if line.startswith("> ")] == [
        "bash",
        "read",
        "read",
        "edit",
        "bash",
    ]
    assert "They pass." in lines
    (kept,) = demo.left()
    project = demo.directory / kept / "project"
    assert lines[-1] == f"kept: project {project}, harness home {project.parent / 'home'}"
    assert project_of.tests_pass(project)
    assert FIX in (project / "prices.py").read_text()
    assert list((project.parent / "home").glob("sessions/*/*/session.jsonl.zstd"))
    assert demo.processes() == []


def test_clean_removes_all_that_the_demo_made(demo) -> None:
    code, out, _err = demo.run("--clean")
    assert (code, demo.left()) == (0, [])
    assert "kept" not in out


def test_slow_tells_the_same_story(demo) -> None:
    code, out, _err = demo.run("--clean", "--slow")
    assert code == 0
    assert "  I look at the project and run its tests.\n" in out
    assert "They pass.\n" in out


def test_the_settings_of_the_person_who_tries_it_are_not_touched(demo, tmp_path) -> None:
    mine = tmp_path / "mine"
    demo.env = {
        "DSH_HOME": str(mine),
        "DEEPSEEK_API_KEY": "a key that stays where it is",
        "DEEPSEEK_BASE_URL": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
        "FORCE_COLOR": "1",
    }
    code, out, err = demo.run("--clean")
    assert code == 0, err
    assert not mine.exists()
    assert ESCAPE not in out


def test_misuse_and_help_run_nothing(demo) -> None:
    code, out, err = demo.run("--nonsense")
    assert (code, out) == (1, "")
    assert "--nonsense" in err
    assert demo.run("--help")[0] == 0
    assert demo.left() == []


@pytest.fixture
def terminal():
    """Both ends of a terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def shown(terminal: tuple[int, int], process: subprocess.Popen[bytes]) -> str:
    """What the terminal showed until the process ended."""
    leader, _follower = terminal
    os.set_blocking(leader, False)
    text = b""
    while True:
        ended = process.poll() is not None
        try:
            text += os.read(leader, 65536)
        except BlockingIOError:
            if ended:
                return text.decode()
            time.sleep(0.01)


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_they_are_refused(
    demo, terminal, no_color: str, *, coloured: bool
) -> None:
    demo.env = {"NO_COLOR": no_color}
    process = demo.start("--clean", stdout=terminal[1], stderr=subprocess.DEVNULL)
    text = shown(terminal, process)
    assert process.returncode == 0
    assert "They pass." in text
    assert (ESCAPE in text) is coloured


def wait_for(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Read until a line holds `text`; the test's own timeout bounds it."""
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"ended without {text!r}")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("moment", [b"A project with", b"session ", b"> read"])
def test_a_signal_ends_everything(demo, number: int, code: int, moment: bytes) -> None:
    process = demo.start("--slow", "--clean")
    wait_for(process, moment)
    process.send_signal(number)
    _out, err = process.communicate(timeout=15)
    assert process.returncode == code
    assert b"Traceback" not in err
    assert demo.left() == []
    assert demo.processes() == []


def test_ctrl_c_in_a_terminal_ends_everything_once(demo, terminal) -> None:
    leader, follower = terminal

    def control() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = demo.start(
        *("--slow", "--clean"),
        stdin=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=control,
    )
    wait_for(process, b"> bash")
    os.write(leader, b"\x03")
    out = process.communicate(timeout=15)[0].decode()
    assert process.returncode == 130
    assert "ABORTED: " in out
    assert "They " not in out
    assert demo.left() == []
    assert demo.processes() == []


def test_a_demo_that_is_killed_takes_its_run_along(demo) -> None:
    process = demo.start("--slow")
    wait_for(process, b"> bash")
    process.kill()
    process.communicate()
    while demo.processes():
        time.sleep(0.02)


def test_a_reader_that_stops_early_ends_the_demo_quietly(demo) -> None:
    process = demo.start("--clean")
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _out, err = process.communicate(timeout=15)
    assert process.returncode == 1
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err
    assert demo.left() == []
    assert demo.processes() == []


def test_a_full_standard_output_is_said(demo) -> None:
    with open("/dev/full", "wb") as full:
        code, _out, err = demo.run("--clean", stdout=full)
    assert code == 1
    assert err.startswith("dsh demo: ")
    assert "No space left" in err
    assert "Traceback" not in err
    assert demo.left() == []


def test_an_interpreter_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone" / "python"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(["--clean"]) == 1
    assert str(tmp_path / "gone") in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_run_that_fails_fails_the_demo(demo, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "dsh_headless.py").write_text("raise ImportError('broken installation')\n")
    demo.env = {"PYTHONPATH": str(broken)}
    code, out, err = demo.run("--clean")
    assert code == 1
    assert "dsh-headless" in err
    assert "They " not in out
    assert demo.left() == []
