"""The plugin template as a stranger uses it: built, installed, called in a turn, removed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import zstandard
from dsh_llm_mock_server import Reply


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The wheel of a copy of the template. Its build backend is not part of what is tested."""
    directory = tmp_path_factory.mktemp("template")
    source = directory / "plugin"
    template = Path(__file__).resolve().parents[2] / "examples/plugin-template"
    shutil.copytree(template, source, ignore=shutil.ignore_patterns("__pycache__"))
    command = ["uv", "build", "--quiet", "--wheel", f"--out-dir={directory}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    return wheel


def logged(dsh, kind):
    """Events of one type in the only session."""
    (file,) = dsh.home.glob("sessions/*/*/session.jsonl.zstd")
    reader = zstandard.ZstdDecompressor()
    with reader.stream_reader(file.read_bytes(), read_across_frames=True) as stream:
        lines = [json.loads(line) for line in stream.read().splitlines()]
    return [line for line in lines if line.get("type") == kind]


def test_its_tool_is_called_in_a_turn_and_its_event_outlives_it(dsh, model, lines, built):
    dsh.done("add", built)
    (dsh.profile / "cordis.patch.yml").write_text("- {id: dice, config: {sides: 2}}\n")
    server = model([Reply.call("roll", {"count": 3}), Reply.text("ok"), Reply.text("still here")])
    done = dsh.run("headless", "--json", "roll three dice")
    assert done.code == 0, done.stderr
    (result,) = [line for line in lines(done) if line["type"] == "tool_result"]
    assert result["status"] == "completed"
    numbers = json.loads(result["result"])
    assert len(numbers) == 3
    assert set(numbers) <= {1, 2}
    (event,) = logged(dsh, "dice/rolled")
    assert event["data"] == {"sides": 2, "numbers": numbers}

    dsh.done("remove", "dsh-dice", "dice")
    assert "dice" not in dsh.dump()
    assert not dsh.site.exists()
    session = lines(done)[0]["sessionId"]
    again = dsh.run("headless", "--json", "--session-id", session, "go on")
    assert again.code == 0, again.stderr
    assert lines(again)[-1]["text"] == "still here"
    offered = [tool["function"]["name"] for tool in server.requests[-1].body["tools"]]
    assert "roll" not in offered
    assert logged(dsh, "dice/rolled") == [event]


def test_its_own_tests_pass_against_the_installed_wheel(dsh, built, examples):
    dsh.done("add", built)
    tests = dsh.cwd / "tests"
    shutil.copytree(examples / "plugin-template/tests", tests)
    dsh.env["PYTHONPATH"] = str(dsh.site)
    done = dsh.run("-q", "-p", "no:cacheprovider", str(tests), program=("-m", "pytest"))
    assert done.code == 0, done.stdout


def test_its_ranges_of_product_versions_are_ranges(examples):
    with (examples / "plugin-template/pyproject.toml").open("rb") as stream:
        document = tomllib.load(stream)
    wanted = [*document["project"]["dependencies"], *document["dependency-groups"]["test"]]
    own = [one for one in wanted if one.startswith("dsh-")]
    assert len(own) == 4
    assert all(re.fullmatch(r"dsh-[a-z-]+>=[\d.]+,<[\d.]+", one) for one in own)
