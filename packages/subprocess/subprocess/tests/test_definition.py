"""What a child inherits, and which specs are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from dsh_subprocess import (
    MAX_TIMER_MS,
    Collect,
    SpawnSpec,
    SubprocessError,
    child_environment,
    scrubbed_parent_env,
)


def spec(**changes: Any) -> SpawnSpec:
    fields = {
        "argv": ("true",),
        "cwd": "/",
        "stdin": "ignore",
        "stdout": "inherit",
        "stderr": "inherit",
        "grace_ms": 100,
    }
    return SpawnSpec(**(fields | changes))


@pytest.mark.parametrize(
    "name",
    ["A_SECRET", "openai_api_key", "KEYS", "MyPassword", "GITHUB_TOKEN", "DSH_HOME", "dsh_x"],
)
def test_credentials_and_the_harness_own_names_are_withheld(name: str) -> None:
    assert scrubbed_parent_env({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "MY_DSH_HOME", "LANG", "PASSWD"])
def test_other_names_are_inherited(name: str) -> None:
    assert scrubbed_parent_env({name: "x"}) == {name: "x"}


def test_an_explicit_value_restores_a_withheld_name_and_none_removes_any() -> None:
    environ = {"A_SECRET": "old", "HOME": "/root", "LANG": "C"}
    overrides = {"A_SECRET": "given", "DSH_HOME": "/h", "LANG": None, "ABSENT": None}
    assert child_environment(environ, overrides) == {
        "A_SECRET": "given",
        "DSH_HOME": "/h",
        "HOME": "/root",
    }
    assert environ["LANG"] == "C"


@pytest.mark.parametrize("argv", [(), ("",), ("", "x")])
def test_a_spec_names_a_program(argv: tuple[str, ...]) -> None:
    with pytest.raises(SubprocessError, match="argv") as caught:
        spec(argv=argv)
    assert caught.value.code == "INVALID_SPAWN_SPEC"


@pytest.mark.parametrize("grace", [0, -1, math.nan, math.inf, MAX_TIMER_MS + 1])
def test_a_grace_that_no_timer_takes_is_refused(grace: float) -> None:
    with pytest.raises(SubprocessError, match="grace_ms") as caught:
        spec(grace_ms=grace)
    assert caught.value.code == "INVALID_SPAWN_SPEC"
    assert spec(grace_ms=MAX_TIMER_MS).grace_ms == MAX_TIMER_MS


@pytest.mark.parametrize("sizes", [{"max_bytes": 0}, {"max_bytes": 1, "spill_max_bytes": -1}])
def test_a_collector_keeps_at_least_a_byte(sizes: dict[str, int]) -> None:
    with pytest.raises(SubprocessError, match="must be positive") as caught:
        Collect(**sizes)
    assert caught.value.code == "INVALID_SPAWN_SPEC"


def test_the_values_of_variables_are_not_shown() -> None:
    assert "hunter2" not in repr(spec(env={"DB": "hunter2"}))
