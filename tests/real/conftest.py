"""Real projects, each broken by one line and mended by a scripted model through `dsh headless`.

`nox -s real` fetches the projects of `projects.txt` from the package index and runs these tests.
Without it they are not collected: the rest of the tests needs no network.
"""

from __future__ import annotations

import os

SDISTS = "DSH_REAL_SDISTS"
"""Names the directory that holds the source distributions."""

collect_ignore_glob = [] if SDISTS in os.environ else ["test_*.py"]
