"""Importing a package costs little and does nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# Each takes longer to import than a whole boot may.
_HEAVY = ["pydantic", "httpx", "litellm", "openai", "rich", "click", "ruamel", "importlib_metadata"]

_SCRIPT = """
import importlib, json, sys
heavy, names = json.loads(sys.argv[1])
found = {}
for name in names:
    importlib.import_module(name)
    for module in heavy:
        if module in sys.modules:
            found.setdefault(module, name)
sys.stderr.write(json.dumps(found))
"""


def import_all(names: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-W", "error", "-c", _SCRIPT, json.dumps([_HEAVY, names])]
    env = {"HOME": str(cwd), "TMPDIR": str(cwd), "DSH_HOME": str(cwd / "home"), "PATH": "/nowhere"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_importing_the_product_loads_nothing_heavy_writes_and_prints_nothing(
    members: list[Any], tmp_path: Path
) -> None:
    done = import_all([member.package for member in members], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "{}")
    assert list(tmp_path.iterdir()) == []


def test_the_check_itself_notices_a_heavy_import(tmp_path: Path) -> None:
    done = import_all(["json", "httpx"], tmp_path)
    assert json.loads(done.stderr)["httpx"] == "httpx"
