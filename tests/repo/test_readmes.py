"""Every README is short, and its examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r'code(?:: \w+)? ?= ?"([A-Z][A-Z0-9_]{3,})"')
_LONGEST = 120
_ORDER = ["Install", "Example", "Config", "Events", "Errors", "Limits"]


def test_a_readme_is_short_and_in_order(member: Any) -> None:
    assert len(member.readme.splitlines()) <= _LONGEST
    headings = re.findall(r"^## (\w+)", member.readme, re.MULTILINE)
    assert {"Install", "Limits"} <= set(headings)
    assert "Configuration" not in headings, "the heading is Config"
    known = [name for name in headings if name in _ORDER]
    assert known == sorted(known, key=_ORDER.index)


def test_the_examples_of_a_readme_run(member: Any, tmp_path: Path) -> None:
    examples = _PYTHON.findall(member.readme)
    if member.group == "packages":
        assert examples, "a package shows how it is used"
    for example in examples:
        env = {"HOME": str(tmp_path), "DSH_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-W", "error", "-c", example]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_every_error_code_is_explained(member: Any, members: Any) -> None:
    """In the package that raises it, or in one that it stands on and whose contract it keeps."""
    stands_on = {entry.partition("==")[0] for entry in member.project.get("dependencies", [])}
    explained = member.readme + "".join(m.readme for m in members if m.name in stands_on)
    source = "".join(module.path.read_text("utf-8") for module in member.modules)
    codes = set(_CODE.findall(source))
    assert sorted(code for code in codes if code not in explained) == []
