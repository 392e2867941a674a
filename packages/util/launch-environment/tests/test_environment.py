"""Layers of the launch environment."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import Context
from dsh_launch_environment import (
    LAUNCH_ENVIRONMENT,
    EnvironmentValue,
    LaunchEnvironment,
    LaunchEnvironmentError,
    launch_environment_of,
    load_layered_environment,
)


class Place:
    """A working directory and a harness home."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "project"
        self.home = root / "home"
        self.cwd.mkdir()
        self.home.mkdir()

    def load(self, project: str | None, user: str | None, **environ: str) -> LaunchEnvironment:
        for directory, text in ((self.cwd, project), (self.home, user)):
            if text is not None:
                (directory / ".env").write_text(text)
        return load_layered_environment("dsh", self.cwd, self.home, environ)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_launching_environment_wins_then_the_project_then_the_user(place: Place) -> None:
    env = place.load("A=project\nB=project", "A=user\nB=user\nC=user", A="process")
    assert [env.get(name) for name in "ABCD"] == ["process", "project", "user", None]
    assert dict(env.merged) == {"A": "process", "B": "project", "C": "user"}


def test_a_variable_set_to_nothing_counts_as_set(place: Place) -> None:
    env = place.load("A=project\nB=", "B=user", A="")
    assert [env.get("A"), env.get("B")] == ["", ""]


def test_each_value_knows_its_origin(place: Place) -> None:
    env = place.load("A=1", "A=2", A="0")
    project, user = place.cwd / ".env", place.home / ".env"
    everywhere = ("user-env", "project-env", "process")
    assert env.get_from("A", everywhere) == EnvironmentValue("0", "process")
    assert env.get_from("A", ["user-env", "project-env"]) == EnvironmentValue(
        "1", "project-env", project
    )
    assert env.get_from("A", ["user-env"]) == EnvironmentValue("2", "user-env", user)
    assert env.get_from("A", []) is None


def test_a_source_that_was_left_out_cannot_be_reached(place: Place) -> None:
    env = place.load("KEY=from-the-project", None)
    assert env.get_from("KEY", ["process", "user-env"]) is None


@pytest.mark.parametrize(
    "name",
    [
        *("https_proxy", "DSH_X", "dsh_home", "PATH", "Ld_Preload", "XDG_CONFIG_HOME", "DYLD_A"),
        *("DEEPSEEK_BASE_URL", "PYTHONPATH", "GIT_SSH_COMMAND", "SSL_CERT_FILE", "bash_func_x"),
    ],
)
@pytest.mark.parametrize("where", ["project", "user"])
def test_a_forbidden_name_refuses_the_launch(place: Place, name: str, where: str) -> None:
    files: dict[str, Any] = {"project": "OK=1", "user": "OK=1"}
    files[where] += f"\n{name}=secret-value"
    with pytest.raises(LaunchEnvironmentError) as caught:
        place.load(**files)
    path = (place.cwd if where == "project" else place.home) / ".env"
    message = str(caught.value)
    assert message.startswith(
        f'dsh: {path} sets "{name}", which only the launching environment may set'
    )
    assert "secret-value" not in message
    assert caught.value.code == "FORBIDDEN_VARIABLE"


def test_a_forbidden_name_that_is_set_already_is_refused_all_the_same(place: Place) -> None:
    with pytest.raises(LaunchEnvironmentError):
        place.load("HTTPS_PROXY=x", None, HTTPS_PROXY="y")


def test_absent_files_are_no_news(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    assert dict(place.load(None, None, A="1").merged) == {"A": "1"}
    assert caplog.messages == []


def test_a_virtual_environment_called_env_is_no_news(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    (place.cwd / ".env").mkdir()
    assert place.load(None, "A=user").get("A") == "user"
    assert caplog.messages == []


def test_an_unreadable_file_is_one_line_and_the_rest_applies(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    (place.cwd / ".env").symlink_to(".env")
    assert place.load(None, "A=user").get("A") == "user"
    [message] = caplog.messages
    assert message.startswith(f"dsh: failed to load .env: {place.cwd / '.env'}: ")


def test_a_pipe_does_not_hold_the_launch(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(place.cwd / ".env")
    assert place.load(None, "A=user").get("A") == "user"
    assert caplog.messages == [
        f"dsh: failed to load .env: {place.cwd / '.env'} is not a regular file"
    ]


def test_a_file_that_is_no_text_is_one_line(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    (place.cwd / ".env").write_bytes(b"A=\xff\xfe")
    place.load(None, None)
    assert caplog.messages == [f"dsh: failed to load .env: {place.cwd / '.env'} is not UTF-8 text"]


def test_a_malformed_line_is_reported_without_its_content(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    env = place.load("A=1\nsk-very-secret\nB=2", None)
    assert dict(env.merged) == {"A": "1", "B": "2"}
    assert caplog.messages == [
        f"dsh: {place.cwd / '.env'} line 2 is not NAME=value and was skipped"
    ]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_byte_order_mark_is_no_part_of_the_first_name(place: Place) -> None:
    assert place.load("\ufeffA=1", None).get("A") == "1"


def test_a_home_that_is_the_working_directory_is_read_once_as_the_project(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / "link").symlink_to(tmp_path)
    env = load_layered_environment("dsh", tmp_path, tmp_path / "link", {})
    assert env.get_from("A", ["user-env"]) is None
    assert env.get("A") == "1"


def test_the_process_environment_is_not_touched(place: Place) -> None:
    place.load("DOTENV_TEST_NAME=1", None)
    assert "DOTENV_TEST_NAME" not in os.environ


def test_it_does_not_change_with_its_source(place: Place) -> None:
    source = {"A": "1"}
    env = LaunchEnvironment(source)
    source["A"] = "2"
    assert env.get("A") == "1"
    with pytest.raises(TypeError):
        env.merged["A"] = "3"


def test_no_value_shows_in_a_repr(place: Place) -> None:
    env = place.load("A=s3cret", "B=s3cret", C="s3cret")
    shown = repr((env, env.get_from("A", ["project-env"])))
    assert "s3cret" not in shown
    assert "project-env: 1" in shown


@pytest.mark.anyio
async def test_a_context_without_a_launcher_sees_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAUNCHED_WITH", "this")
    async with Context() as root:
        assert launch_environment_of(root).get("LAUNCHED_WITH") == "this"
        provided = LaunchEnvironment({})
        root.provide(LAUNCH_ENVIRONMENT, provided)
        assert launch_environment_of(root) is provided


def test_a_home_that_is_a_link_to_itself_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "home").symlink_to(tmp_path / "home")
    (tmp_path / ".env").write_text("A=1")
    env = load_layered_environment("dsh", tmp_path, tmp_path / "home", {})
    assert env.get("A") == "1"
    assert caplog.text.count("failed to load .env") == 1
