"""The examples run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dsh_llm_mock_server import MockServer, Reply

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(command, cwd, **env) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DSH_", "DEEPSEEK_"))
    }
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def against(server: MockServer, home: Path) -> dict[str, str]:
    return {
        "DSH_HOME": str(home),
        "DEEPSEEK_BASE_URL": server.base_url,
        "DEEPSEEK_API_KEY": "k",
    }


@pytest.fixture
def installed(tmp_path) -> Path:
    """A folder with the plugin installed in it, as pip would."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv to build the plugin")
    site = tmp_path / "site"
    source = tmp_path / "dice-plugin"
    shutil.copytree(EXAMPLES / "dice-plugin", source)
    done = run([uv, "pip", "install", "--no-deps", "--target", site, source], tmp_path)
    assert done.returncode == 0, done.stderr
    return site


def test_the_plugin_template_passes_its_own_tests(tmp_path):
    tests = tmp_path / "tests"
    shutil.copytree(EXAMPLES / "dice-plugin/tests", tests)
    source = EXAMPLES / "dice-plugin/src"
    done = run([sys.executable, "-m", "pytest", "-q", tests], tmp_path, PYTHONPATH=str(source))
    assert done.returncode == 0, done.stdout


def test_an_installed_plugin_is_mounted_by_the_name_of_its_distribution(tmp_path, installed):
    readme = (EXAMPLES / "dice-plugin/README.md").read_text()
    (row,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    home = tmp_path / "home"
    home.mkdir()
    (home / "cordis.patch.yml").write_text(row)
    replies = [Reply.call("roll", {"count": 2}), Reply.text("ok")]
    with MockServer.threaded(replies) as server:
        done = run(
            [sys.executable, "-m", "dsh_cli", "headless", "roll"],
            tmp_path,
            PYTHONPATH=str(installed),
            **against(server, home),
        )
        assert done.returncode == 0, done.stderr
        result = server.requests[1].messages[-1]["content"]
        assert re.fullmatch(r"\[\s*\d+,\s*\d+\s*\]", result)


def test_the_read_only_composition_looks_but_does_not_touch(tmp_path):
    (tmp_path / "file.txt").write_text("one\n")
    replies = [
        Reply.call("read", {"file_path": "file.txt"}),
        Reply.call("edit", {"file_path": "file.txt", "old_string": "one", "new_string": "two"}),
        Reply.call("bash", {"command": "rm file.txt", "description": "d"}),
        Reply.text("ok"),
    ]
    patch = EXAMPLES / "read-only/read-only.yml"
    with MockServer.threaded(replies) as server:
        done = run(
            [sys.executable, "-m", "dsh_cli", "--patch", patch, "headless", "look"],
            tmp_path,
            **against(server, tmp_path / "home"),
        )
        assert done.returncode == 0, done.stderr
        offered = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
        assert "bash" not in offered
        answers = [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]
    assert "1: one" in answers[0]
    assert "read-only" in answers[1]
    assert (tmp_path / "file.txt").read_text() == "one\n"


def test_the_evaluation_counts_right_answers(tmp_path):
    def model(request):
        asked = request.messages[-1]
        if asked["role"] == "tool":
            return Reply.text(f"It is {asked['content']}.")
        a, b = (int(number) for number in re.findall(r"\d+", asked["content"])[:2])
        return Reply.call("multiply", {"a": a, "b": b})

    with MockServer.threaded(model) as server:
        done = run(
            [sys.executable, "-W", "error", EXAMPLES / "embedding/evaluate.py"],
            tmp_path,
            **against(server, tmp_path / "home"),
        )
    assert (done.returncode, done.stdout) == (0, "6 of 6 right\n"), done.stderr
