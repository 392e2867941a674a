"""What a command's records show of themselves."""

from __future__ import annotations

from dsh_shell import ShellRequest, ShellSpec


def test_the_values_of_variables_are_not_shown() -> None:
    env = {"DB": "hunter2"}
    spec = ShellSpec(command="true", workdir="/", timeout_ms=1, signal=None, stdin=None, env=env)
    assert "hunter2" not in repr((ShellRequest(command="true", env=env), spec))
