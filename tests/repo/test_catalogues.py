"""The generated pages of docs/ and tables of the READMEs say what the sources say."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", ["catalogues.py", "readmes.py"])
def test_what_is_generated_is_current(script: str):
    check = subprocess.run(
        [sys.executable, f"docs/{script}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr


@pytest.fixture
def readmes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("readmes")


@pytest.fixture
def copied(readmes: Any, tmp_path: Path) -> Any:
    """A member with a table of each kind, free to change."""
    return readmes.Member(copytree(ROOT / "packages/core/agent-loop", tmp_path / "member"))


def test_a_table_changed_by_hand_is_written_again(readmes: Any, copied: Any):
    text = copied.readme.read_text()
    copied.readme.write_text(text.replace("`maxParallelToolCalls`", "`maxCalls`"))
    assert readmes.filled(copied) == text


@pytest.mark.parametrize("what", ["config", "events"])
def test_a_readme_without_its_table_is_refused(readmes: Any, copied: Any, what: str):
    text = copied.readme.read_text()
    copied.readme.write_text(text.replace(f"<!-- generated: {what} -->", ""))
    with pytest.raises(readmes.StaleError, match=f"the marker of its {what} is missing"):
        readmes.filled(copied)


def test_a_field_without_a_description_is_refused(readmes: Any):

    class Config(msgspec.Struct):
        limit: int = 1

    with pytest.raises(readmes.StaleError, match=r"Config\.limit has no description"):
        list(readmes.config_rows(Config))
