"""The types of the public API hold for authors: good code passes, each mistake is reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKER = Path(sys.prefix) / "bin" / "basedpyright"

pytestmark = [
    pytest.mark.skipif(not CHECKER.exists(), reason="basedpyright is not installed"),
    pytest.mark.timeout(120),
]


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> dict[str, set[int]]:
    """Lines with errors, by file name."""
    project = tmp_path_factory.mktemp("typing") / "pyrightconfig.json"
    include = [str(path) for path in HERE.glob("*_*.py") if not path.name.startswith("test_")]
    settings = {"include": include, "extraPaths": [str(HERE)], "typeCheckingMode": "strict"}
    project.write_text(json.dumps(settings))
    done = subprocess.run(
        [CHECKER, "--outputjson", "--pythonpath", sys.executable, "--project", project],
        capture_output=True,
        text=True,
        check=False,
    )
    lines: dict[str, set[int]] = {Path(path).name: set() for path in include}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            lines[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    return lines


@pytest.mark.parametrize("name", ["kernel_good.py", "product_good.py"])
def test_good_plugins_pass(reported: dict[str, set[int]], name: str):
    assert reported[name] == set()


@pytest.mark.parametrize(("name", "mistakes"), [("kernel_bad.py", 18), ("product_bad.py", 15)])
def test_every_mistake_of_a_bad_plugin_is_reported(
    reported: dict[str, set[int]], name: str, mistakes: int
):
    source = (HERE / name).read_text().splitlines()
    marked = {number for number, line in enumerate(source, 1) if "# BAD" in line}
    assert len(marked) == mistakes
    assert reported[name] == marked
