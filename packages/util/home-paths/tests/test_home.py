"""Where the harness home is and how it is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsh_home_paths import HomePath, dsh_home_display, expand_home_path, resolve_dsh_home

ENV = {"HOME": "/home/ada"}


@pytest.mark.parametrize(
    ("configured", "variable", "expected"),
    [
        ("/a", "/b", "/a"),
        (Path("/a"), "/b", "/a"),
        (None, "/b", "/b"),
        (" ", "/b", "/b"),
        (None, None, "/home/ada/.dsh"),
        (None, "", "/home/ada/.dsh"),
        (None, "  ", "/home/ada/.dsh"),
        ("~/x/../y", None, "/home/ada/y"),
        (None, "~", "/home/ada"),
    ],
)
def test_the_home_is_the_first_that_is_set(
    configured: str | Path | None, variable: str | None, expected: str
) -> None:
    env = ENV if variable is None else {**ENV, "DSH_HOME": variable}
    assert resolve_dsh_home(configured, env) == Path(expected)


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_dsh_home("x", ENV) == tmp_path / "x"


def test_the_process_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSH_HOME", str(tmp_path))
    assert resolve_dsh_home() == tmp_path


def test_resolving_makes_no_directory(tmp_path: Path) -> None:
    resolve_dsh_home(tmp_path / "new", ENV)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~", "/home/ada"),
        ("~/a/b", "/home/ada/a/b"),
        ("~\\a", "/home/ada/a"),
        ("~bob/a", "~bob/a"),
        ("a/~", "a/~"),
        ("/x", "/x"),
    ],
)
def test_only_the_own_home_is_expanded(path: str, expected: str) -> None:
    assert expand_home_path(path, ENV) == Path(expected)


def test_without_a_variable_the_systems_home_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert expand_home_path("~", {}) == Path.home()


def test_the_displayed_home_is_never_absolute() -> None:
    assert dsh_home_display(Path("/home/ada/.dsh"), ENV) == "~/.dsh"
    assert dsh_home_display(Path("/srv/secret-project"), ENV) == "$DSH_HOME"


def test_parts_are_joined_below_the_home() -> None:
    home_path = HomePath(Path("/h"))
    assert home_path("sessions", "x") == Path("/h/sessions/x")
    assert home_path() == Path("/h")


def test_an_absolute_part_is_refused() -> None:
    with pytest.raises(ValueError, match="'/etc' is absolute"):
        HomePath(Path("/h"))("sessions", "/etc")
