"""Commands that ask, below a real terminal: nobody is asked and no key is taken."""

from __future__ import annotations

import json
import os
import pty
import shlex
import shutil
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

TYPED = b"secret\n"

# Runs commands from a terminal as a user's program would: the results go to a file, and then it
# reads what the user typed meanwhile.
PROGRAM = """
import asyncio, fcntl, json, os, sys, termios
from dsh_bash_local import BashLocal
from dsh_cordis import Context
from dsh_shell import SHELL, ShellRequest
from dsh_subprocess_local import LocalSubprocess

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.close(os.open("/dev/tty", os.O_RDWR))
assert os.isatty(0) and os.isatty(1) and os.isatty(2)

async def main():
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        await root.plugin(BashLocal, {"graceMs": 200, "timeoutMs": 10000})
        shell = root[SHELL]
        done = await shell.run(shell.resolve(ShellRequest(command=sys.argv[1])))
        return [done.exit_code, done.timed_out, done.stdout.text, done.stderr.text]

result = asyncio.run(main())
result.append(os.read(0, 100).decode())
with open(sys.argv[2], "w") as file:
    json.dump(result, file)
"""


def ask(command: str, tmp_path: Path) -> tuple[int, str]:
    """Exit code and all output of `command`; the terminal showed nothing and kept its keys."""
    report = tmp_path / "report.json"
    keyboard, other = pty.openpty()
    settings = termios.tcgetattr(other)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(other, termios.TCSANOW, settings)
    os.write(keyboard, TYPED)
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, command, str(report)],
        stdin=other,
        stdout=other,
        stderr=other,
        env={**os.environ, "HOME": str(tmp_path), "LC_ALL": "C"},
        start_new_session=True,
    )
    os.close(other)
    shown = b""
    while True:
        try:
            data = os.read(keyboard, 1000)
        except OSError:  # the last holder of the other side is gone
            break
        shown += data
    os.close(keyboard)
    assert program.wait() == 0, shown
    assert shown == b""
    code, timed_out, out, err, typed = json.loads(report.read_text())
    assert not timed_out
    assert typed.encode() == TYPED
    return code, out + err


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here")


@pytest.mark.parametrize(
    "command",
    [
        "read -p 'pw: ' x </dev/tty; echo \"[$x]\"",
        "read -p 'pw: ' x; echo \"[$x]\"",
        "echo 'pw: ' >/dev/tty; read x </dev/tty; echo \"[$x]\"",
    ],
)
def test_reading_from_the_terminal_gives_nothing(command: str, tmp_path: Path) -> None:
    code, output = ask(command, tmp_path)
    assert code == 0
    assert "[]" in output


def test_a_program_that_wants_a_line_gets_the_end(tmp_path: Path) -> None:
    code, output = ask(f"{shlex.quote(sys.executable)} -c \"input('? ')\"", tmp_path)
    assert code == 1
    assert "EOFError" in output


def test_a_password_prompt_of_a_program_fails(tmp_path: Path) -> None:
    script = "import getpass; print(repr(getpass.getpass()))"
    code, output = ask(f'{shlex.quote(sys.executable)} -W ignore -c "{script}"', tmp_path)
    assert code == 1
    assert "EOFError" in output


class Locked(BaseHTTPRequestHandler):
    """A server that lets nobody in."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing to say."""


@pytest.fixture
def locked_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/repo"
        server.shutdown()
        thread.join()


@needs("git")
def test_git_does_not_ask_for_a_password(
    locked_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, "/bin/cat")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    code, output = ask(f"git -c credential.helper= ls-remote {locked_server}", tmp_path)
    assert code == 128
    assert "terminal prompts disabled" in output


@needs("git")
def test_git_does_not_open_an_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "sleep 300 #")
    monkeypatch.setenv("GIT_EDITOR", "sleep 300 #")
    code, output = ask(
        f"cd {shlex.quote(str(tmp_path))} && git init -q r && cd r && touch f && git add f"
        " && git -c user.name=n -c user.email=e@x commit",
        tmp_path,
    )
    assert code == 1
    assert "message" in output


@pytest.fixture
def ssh_server(tmp_path: Path) -> Iterator[int]:
    """A server on a free port of the loopback that nobody can log in to."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or os.geteuid() != 0:
        pytest.skip("no sshd that can be started here")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = ["-o", f"ListenAddress=127.0.0.1:{port}", "-o", "PidFile=none", "-h", str(key)]
    server = subprocess.Popen(
        [program, "-D", "-e", "-f", "/dev/null", *options], stderr=subprocess.PIPE
    )
    assert server.stderr is not None
    assert b"listening" in server.stderr.readline()
    yield port
    server.kill()
    server.communicate()


@needs("ssh")
def test_ssh_does_not_ask_about_a_host(ssh_server: int, tmp_path: Path) -> None:
    command = f"ssh -p {ssh_server} -o StrictHostKeyChecking=ask -o UserKnownHostsFile=/dev/null"
    code, output = ask(f"{command} nosuch@127.0.0.1", tmp_path)
    assert code == 255
    assert "verification failed" in output


@needs("ssh")
def test_ssh_does_not_ask_for_a_password(ssh_server: int, tmp_path: Path) -> None:
    command = f"ssh -p {ssh_server} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    code, output = ask(f"{command} nosuch@127.0.0.1", tmp_path)
    assert code == 255
    assert "Permission denied" in output


@needs("sudo")
@needs("setpriv")
def test_sudo_does_not_ask(tmp_path: Path) -> None:
    prefix = "setpriv --reuid=65534 --clear-groups " if os.geteuid() == 0 else ""
    code, output = ask(f"{prefix}sudo -k true", tmp_path)
    assert code != 0
    assert "sudo" in output
