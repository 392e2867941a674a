"""The types of the public API hold for authors: good code passes, each mistake is reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "typing"
CHECKER = Path(sys.prefix) / "bin" / "basedpyright"

pytestmark = [
    pytest.mark.skipif(not CHECKER.exists(), reason="basedpyright is not installed"),
    pytest.mark.timeout(120),
]


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> dict[str, set[int]]:
    """Lines with errors, by file name."""
    project = tmp_path_factory.mktemp("typing") / "pyrightconfig.json"
    settings = {"include": [str(HERE)], "extraPaths": [str(HERE)], "typeCheckingMode": "strict"}
    project.write_text(json.dumps(settings))
    done = subprocess.run(
        [CHECKER, "--outputjson", "--pythonpath", sys.executable, "--project", project],
        capture_output=True,
        text=True,
        check=False,
    )
    lines: dict[str, set[int]] = {"good_plugin.py": set(), "bad_plugin.py": set()}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            lines[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    return lines


def test_good_plugin_passes(reported: dict[str, set[int]]):
    assert reported["good_plugin.py"] == set()


def test_every_mistake_of_the_bad_plugin_is_reported(reported: dict[str, set[int]]):
    source = (HERE / "bad_plugin.py").read_text().splitlines()
    marked = {number for number, line in enumerate(source, 1) if "# BAD" in line}
    assert len(marked) == 18
    assert reported["bad_plugin.py"] == marked
