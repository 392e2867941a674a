"""What the shell says of itself."""

from __future__ import annotations

import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import Context
from dsh_shell import SHELL

pytestmark = pytest.mark.anyio


async def test_it_warns_that_commands_run_without_a_sandbox(root: Context) -> None:
    shell = root[SHELL]
    assert isinstance(shell, BashLocal)
    (finding,) = shell.diagnose()
    assert (finding.level, finding.subject) == ("warning", "commands")
    assert "without a sandbox" in finding.message
