"""Fills docs/kernel.md with the files of examples/kernel-tutorial and what they print.

`python docs/tutorial.py` writes the page, `--check` only says whether it is current. A block below

    <!-- file: NAME -->     shows that file, without its first docstring and `from __future__`
    <!-- output: NAME -->   shows what `python NAME` prints on standard output
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs/kernel.md"
FOLDER: Final = ROOT / "examples/kernel-tutorial"
BLOCK: Final = re.compile(
    r"(<!-- (?P<kind>file|output): (?P<name>\S+) -->\n```\w+\n).*?(^```$)",
    re.DOTALL | re.MULTILINE,
)
PREAMBLE: Final = re.compile(
    r'\A""".*?"""\n\n?(from __future__ import annotations\n\n?)?', re.DOTALL
)


def shown(name: str) -> str:
    """The part of a file that the page shows."""
    return PREAMBLE.sub("", (FOLDER / name).read_text(encoding="utf-8"))


def printed(name: str) -> str:
    """What a file prints. Raises CalledProcessError if it fails, on a warning too."""
    done = subprocess.run(
        [sys.executable, "-W", "error", name],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def filled(page: str) -> str:
    """The page with every block as its file is and prints now."""

    def fill(match: re.Match[str]) -> str:
        text = (shown if match["kind"] == "file" else printed)(match["name"])
        return match[1] + text.rstrip("\n") + "\n" + match[4]

    return BLOCK.sub(fill, page)


def main() -> int:
    """Write or check the page; 1 if a check finds it stale."""
    page = PAGE.read_text(encoding="utf-8")
    current = filled(page)
    if "--check" in sys.argv[1:]:
        if current != page:
            sys.stderr.write("docs/kernel.md is stale: run python docs/tutorial.py\n")
        return int(current != page)
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
