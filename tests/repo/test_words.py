"""The repository speaks of the product and names no place or hand that made it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# Written apart, so that this file does not find itself.
_FORBIDDEN = re.compile(
    "|".join(
        [
            r"pypi\.org/" + "simple",
            r"pythonhosted" + r"\.org",
            r"(?<![\w./-])/" + "work/",
            "/tmp/" + "dsh(?![a-z-])",
            r"(?-i:\bTO" + r"DO\b)",
            r"(?-i:\bFIX" + r"ME\b)",
            r"(?-i:\bX" + r"XX\b)",
            "field" + "-cases",
            r"\b(?:DESIGN|FORMATS|STYLE|CONTRACT)" + r"\.md\b",
            r"\b(?:DESIGN|FORMATS|STYLE|spec) " + r"(?:§|section|0\d\b)",
            r"\bspec/" + r"\d",
            r"@deep" + "seek-ai/",
            r"\bsit" + r"tings?\b",
            "helper " + "agent",
        ]
    ),
    re.IGNORECASE,
)
# The lock file names where its hashes come from.
_SKIPPED = {"uv.lock"}


def tracked(root: Path) -> list[Path]:
    command = [
        "git",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [root / name for name in listed.stdout.split("\0") if name]
    hidden = {".venv", ".nox", ".git"}
    return [path for path in root.rglob("*") if not hidden & set(path.parts)]


def test_no_file_holds_a_forbidden_word(root: Path) -> None:
    offenders = []
    for path in tracked(root):
        if path.name in _SKIPPED or not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if match := _FORBIDDEN.search(line):
                offenders.append(f"{path.relative_to(root)}:{number}: {match.group()}")
    assert offenders == []


def test_the_license_names_its_holder(root: Path) -> None:
    text = (root / "LICENSE").read_text()
    assert text.startswith(
        "MIT License\n\nCopyright (c) 2026 The DeepSeek Harness for Python authors"
    )
