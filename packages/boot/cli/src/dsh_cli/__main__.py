"""`python -m dsh_cli` is `dsh`."""

from __future__ import annotations

import sys

from dsh_cli import main

sys.exit(main())
