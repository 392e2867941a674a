"""The examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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
