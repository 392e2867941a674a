"""`python -m dsh_cli` is `dsh`."""

from __future__ import annotations

from dsh_cli import program

program()
