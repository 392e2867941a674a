"""Imports all of one installed distribution and says what the environment holds, as JSON."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from importlib.metadata import distribution, distributions

# Fixtures need pytest, a program's main module runs it.
SKIPPED = {"testing", "__main__"}


def main(name: str, package: str) -> None:
    root = importlib.import_module(package)
    assert str(root.__file__).startswith(sys.prefix), root.__file__
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if module.name.rpartition(".")[2] not in SKIPPED:
            importlib.import_module(module.name)
    for point in distribution(name).entry_points:
        point.load()
    found = list(distributions())
    files = [path.locate() for one in found for path in one.files or ()]
    size = sum(path.stat().st_size for path in files)
    sys.stdout.write(json.dumps({"distributions": len(found), "bytes": size}))


main(*sys.argv[1:])
