"""The types of the public API hold for authors, whichever checker they use.

Good plugins pass and every mistake of a bad one is reported: by pyright, basedpyright and mypy,
each in its strict mode.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

HERE = Path(__file__).parent
BIN = Path(sys.prefix) / "bin"
CHECKERS = ("pyright", "basedpyright", "mypy")
EXAMPLES = HERE.parents[1] / "examples"
MISTAKES = {"kernel_bad.py": 30, "product_bad.py": 15}
FILES = {
    path.name: path
    for path in (
        *(HERE / name for name in ("kernel_good.py", "product_good.py", *MISTAKES)),
        *sorted((EXAMPLES / "kernel-tutorial").glob("*.py")),
        EXAMPLES / "read-only/policy.py",
        EXAMPLES / "embedding/evaluate.py",
    )
}
GOOD = [name for name in FILES if name not in MISTAKES]

Reports: TypeAlias = Mapping[str, Mapping[str, set[int]]]
"""Checker to sample to the lines with errors."""

pytestmark = [
    pytest.mark.skipif(not (BIN / "basedpyright").exists(), reason="no type checker is installed"),
    pytest.mark.timeout(240),
]


def run(command: list[object], cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def pyright_lines(program: str, project: Path) -> dict[str, set[int]]:
    command = [BIN / program, "--outputjson", "--pythonpath", sys.executable, "--project", project]
    answer = json.loads(run(command, project, PYRIGHT_PYTHON_IGNORE_WARNINGS="1"))
    assert answer["summary"]["filesAnalyzed"] == len(FILES)
    lines: dict[str, set[int]] = {name: set() for name in FILES}
    for one in answer["generalDiagnostics"]:
        if one["severity"] == "error":
            lines[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    return lines


def mypy_lines(project: Path) -> dict[str, set[int]]:
    options = ["--strict", "--config-file=", "--python-executable", sys.executable]
    answer = run([BIN / "mypy", *options, *FILES], project)
    assert f"(checked {len(FILES)} source files)" in answer
    lines: dict[str, set[int]] = {name: set() for name in FILES}
    for name, line in re.findall(r"^([\w.]+):(\d+): error: ", answer, re.MULTILINE):
        lines[name].add(int(line))
    return lines


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> Reports:
    """What each checker says, all asked at once."""
    project = tmp_path_factory.mktemp("typing")
    for path in FILES.values():
        shutil.copy(path, project)
    settings = {"include": list(FILES), "typeCheckingMode": "strict"}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    with ThreadPoolExecutor() as pool:
        runs = {name: pool.submit(pyright_lines, name, project) for name in CHECKERS[:2]}
        runs["mypy"] = pool.submit(mypy_lines, project)
        return {name: one.result() for name, one in runs.items()}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("name", GOOD)
def test_good_plugins_pass(reports: Reports, checker: str, name: str):
    assert reports[checker][name] == set()


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_of_a_bad_plugin_is_reported(reports: Reports, checker: str, name: str):
    source = FILES[name].read_text().splitlines()
    marked = {number for number, line in enumerate(source, 1) if "# BAD" in line}
    assert len(marked) == MISTAKES[name]
    assert reports[checker][name] == marked
