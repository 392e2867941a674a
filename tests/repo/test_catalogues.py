"""The generated pages of docs/ say what the sources say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_catalogues_of_events_and_session_events_are_current():
    check = subprocess.run(
        [sys.executable, "docs/catalogues.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr
