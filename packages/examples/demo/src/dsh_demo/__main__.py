"""`python -m dsh_demo`."""

from __future__ import annotations

import sys

from ._command import main

sys.exit(main(sys.argv[1:]))
