"""Write one version into every pyproject of the workspace: `python tools/set_version.py X.Y.Z`.

Each member's own version and every pin of a sibling change together; nothing else does.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?")
_OWN = re.compile(r'^version = "[^"]*"$', re.MULTILINE)
_SIBLING = re.compile(r'"(dsh-[a-z0-9-]+(?:\[[a-z0-9,-]+\])?)==[^";]*')


def main(root: Path, arguments: list[str]) -> int:
    """Rewrite the pyprojects below `root`; returns the exit code."""
    if len(arguments) != 1 or not _VERSION.fullmatch(arguments[0]):
        print(
            "usage: set_version.py X.Y.Z (also X.Y.ZrcN, X.Y.Z.postN, X.Y.Z.devN)", file=sys.stderr
        )
        return 2
    [version] = arguments
    pyprojects = [root / "pyproject.toml"]
    for pattern in ("packages/*/*", "bundles/*", "profiles/*"):
        pyprojects += sorted(root.glob(f"{pattern}/pyproject.toml"))
    for pyproject in pyprojects:
        text = pyproject.read_text("utf-8")
        text = _OWN.sub(f'version = "{version}"', text, count=1)
        pyproject.write_text(_SIBLING.sub(rf'"\1=={version}', text), "utf-8")
    print(f"{len(pyprojects)} pyprojects have version {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent, sys.argv[1:]))
