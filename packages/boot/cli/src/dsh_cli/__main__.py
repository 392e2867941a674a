"""`python -m dsh_cli` is `dsh`."""

import sys

from dsh_cli import main

sys.exit(main())
