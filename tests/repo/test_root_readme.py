"""What the first page tells people to type works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dsh_llm_mock_server import MockServer, Reply

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(
    r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)


def block(kind: str, part: str) -> str:
    """The one block of `kind` that holds `part`."""
    (found,) = [text for language, text in BLOCKS if language == kind and part in text]
    return found


@pytest.fixture
def env(tmp_path):
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    bin_directory = str(Path(sys.executable).parent)
    return {
        **inherited,
        "PATH": f"{bin_directory}:{inherited['PATH']}",
        "HOME": str(tmp_path),
        "DSH_HOME": str(tmp_path / "home"),
    }


def run(command, cwd, env) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60
    )


def installed(text: str) -> list[str]:
    """A shell block for this environment, which is what `uv run` would make in the clone."""
    text = text.replace("uv run --project CLONE ", "").replace("uv run ", "")
    return ["sh", "-ec", text]


def test_the_demo_passes(tmp_path, env):
    done = run(installed(block("sh", "dsh demo")), tmp_path, env | {"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "They pass." in done.stdout


def test_the_real_task_answers(tmp_path, env):
    with MockServer.threaded([Reply.text("It passes now.")], require_key="...") as server:
        done = run(
            installed(block("sh", "make the failing test pass")),
            tmp_path,
            env | {"DEEPSEEK_BASE_URL": server.base_url},
        )
        assert (done.returncode, done.stdout) == (0, "It passes now.\n"), done.stderr
        assert server.requests[0].messages[-1]["content"] == "make the failing test pass"


def test_the_spine_runs_from_python(tmp_path, env):
    replies = [Reply.call("add", {"a": 20, "b": 22}), Reply.text("It is 42.")]
    with MockServer.threaded(replies) as server:
        done = run(
            [sys.executable, "-W", "error", "-c", block("python", "SPINE")],
            tmp_path,
            env | {"DEEPSEEK_BASE_URL": server.base_url, "DEEPSEEK_API_KEY": "k"},
        )
        assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
        assert server.requests[1].messages[-1]["content"] == "42"


def test_the_plugin_is_mounted_by_its_row(tmp_path, env):
    (tmp_path / "dice.py").write_text(block("python", "roll"))
    (tmp_path / "dice.yml").write_text(block("yaml", "dice.py"))
    replies = [Reply.call("roll", {"sides": 1}), Reply.text("A one.")]
    with MockServer.threaded(replies) as server:
        done = run(
            installed(block("sh", "dice.yml")),
            tmp_path,
            env | {"DEEPSEEK_BASE_URL": server.base_url, "DEEPSEEK_API_KEY": "k"},
        )
        assert (done.returncode, done.stdout) == (0, "A one.\n"), done.stderr
        assert server.requests[1].messages[-1]["content"] == "1"


def test_the_test_command_is_the_one_that_ci_runs():
    assert block("sh", "nox").strip() == "uv run nox -s tests"
    assert 'uv run nox -s "$session"' in (ROOT / ".ci/run").read_text()


def test_what_it_is_takes_five_lines():
    opening = (ROOT / "README.md").read_text().split("\n\n")[1]
    assert len(opening.splitlines()) == 5
