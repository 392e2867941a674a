"""`dsh headless` mends a project that it did not know: nothing else changes, nothing is left."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from dsh_llm_mock_server import MockServer, Reply, Request

pytestmark = pytest.mark.timeout(120)

# Settings that pytest would find above the project are none of its own.
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.")


@dataclass(frozen=True)
class Case:
    """A project, and the line that is broken in it."""

    sdist: str
    file: str
    function: str
    good: str
    bad: str
    tests: tuple[str, ...]


CASES = [
    Case(
        sdist="inflection-0.5.1",
        file="inflection/__init__.py",
        function="ordinal",
        good="    if number % 100 in (11, 12, 13):",
        bad="    if number % 100 in (11, 12):",
        tests=PYTEST,
    ),
    Case(
        sdist="more-itertools-10.5.0",
        file="more_itertools/more.py",
        function="chunked",
        good="                if len(chunk) != n:",
        bad="                if len(chunk) > n:",
        tests=("-m", "unittest", "-q"),
    ),
    Case(
        sdist="tabulate-0.9.0",
        file="tabulate/__init__.py",
        function="_padleft",
        good='    fmt = "{0:>%ds}" % width',
        bad='    fmt = "{0:>%ds}" % (width + 1)',
        tests=PYTEST,
    ),
]


@dataclass(frozen=True)
class Project:
    """An unpacked project under version control, its bug committed."""

    case: Case
    directory: Path
    env: dict[str, str]

    def git(self, *args: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "core.autocrlf=false")
        command = ["git", *who, *args]
        return subprocess.run(
            command, cwd=self.directory, env=self.env, capture_output=True, text=True, check=True
        ).stdout

    def tests_pass(self) -> bool:
        """Run the project's own tests."""
        command = [sys.executable, "-B", *self.case.tests]
        done = subprocess.run(
            command, cwd=self.directory, env=self.env, stdin=subprocess.DEVNULL, capture_output=True
        )
        return done.returncode == 0

    def replace(self, old: str, new: str) -> None:
        """Change one line that is there exactly once."""
        path = self.directory / self.case.file
        text = path.read_bytes().decode()
        assert text.count(f"{old}\n") == 1
        path.write_bytes(text.replace(f"{old}\n", f"{new}\n").encode())


@pytest.fixture(params=CASES, ids=[case.sdist for case in CASES])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    case: Case = request.param
    with tarfile.open(Path(os.environ["DSH_REAL_SDISTS"]) / f"{case.sdist}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DSH_", "DEEPSEEK_", "GIT_", "PYTEST_"))
    }
    # Bytecode and caches are no changes of the project's.
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "DSH_HOME": str(tmp_path / "home")}
    project = Project(case, tmp_path / case.sdist, {**inherited, **quiet})
    project.git("init", "--quiet")
    project.git("add", "--all", "--force")
    project.git("commit", "--quiet", "--message", "as released")
    return project


def results(request: Request) -> list[str]:
    """What the tools answered so far."""
    return [message["content"] for message in request.messages if message["role"] == "tool"]


def mending(case: Case):
    """The model: search, read where the search points, test, edit, test again, answer."""
    tests = shlex.join([sys.executable, "-B", *case.tests])

    def bash(command: str) -> Reply:
        return Reply.call("bash", {"command": command, "description": "look"})

    def reply(request: Request) -> Reply:
        answers = results(request)
        match len(answers):
            case 0:
                return Reply.think("Which tests fail?").call(
                    "bash", {"command": f"{tests} 2>&1 | tail -40", "description": "Run the tests"}
                )
            case 1:
                assert re.search("FAILED|failed", answers[0]), answers[0]
                return bash(f"grep -n 'def {case.function}(' {case.file}")
            case 2:
                line = int(re.search(r"^(\d+):", answers[1], re.MULTILINE)[1])
                return Reply.text("There it is.").call(
                    "read", {"file_path": case.file, "offset": line, "limit": 40}
                )
            case 3:
                assert case.bad in answers[2]
                return Reply.call(
                    "edit",
                    {"file_path": case.file, "old_string": case.bad, "new_string": case.good},
                )
            case 4:
                return bash(tests)
            case _:
                failed = "[exit code" in answers[4]
                return Reply.text("It still fails." if failed else "The tests pass.")

    return reply


def living(home: str) -> list[str]:
    """Command lines of processes with this harness home in their environment."""
    mark = f"DSH_HOME={home}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_a_broken_line_of_a_real_project_is_mended(project: Project) -> None:
    case = project.case
    assert project.tests_pass()
    project.replace(case.good, case.bad)
    project.git("commit", "--quiet", "--all", "--message", "broken")
    assert not project.tests_pass()
    with MockServer.threaded(mending(case)) as server:
        run = subprocess.run(
            [sys.executable, "-m", "dsh_cli", "headless", "--json", "One test fails. Mend it."],
            cwd=project.directory,
            env={**project.env, "DEEPSEEK_BASE_URL": server.base_url, "DEEPSEEK_API_KEY": "k"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert server.refusals == []
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert lines[-1] == {"type": "final", "text": "The tests pass."}
    assert [line["tool"] for line in lines if line["type"] == "tool_call"] == [
        "bash",
        "bash",
        "read",
        "edit",
        "bash",
    ]
    ends = [line["status"] for line in lines if line["type"] == "tool_result"]
    assert ends == ["completed"] * 5
    assert project.tests_pass()
    assert project.git("status", "--porcelain", "--ignored").splitlines() == [f" M {case.file}"]
    changed = [
        line
        for line in project.git("diff", "--unified=0", "--no-color").splitlines()
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == [f"-{case.bad}", f"+{case.good}"]
    assert project.git("diff", "HEAD~1") == ""
    assert living(project.env["DSH_HOME"]) == []
