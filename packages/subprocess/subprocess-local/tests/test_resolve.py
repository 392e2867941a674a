"""Finding programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dsh_cordis import AbortController, AbortedError, ConfigError, Context, CordisError
from dsh_subprocess import SUBPROCESS, SubprocessError
from dsh_subprocess_local import LocalSubprocess

pytestmark = pytest.mark.anyio


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


async def test_a_bare_name_is_found_in_the_childs_path(root: Context, program: Path) -> None:
    env = {"PATH": f"/nowhere:{program.parent}"}
    assert await root[SUBPROCESS].resolve_executable("mine", env=env) == str(program)
    assert (await root[SUBPROCESS].resolve_executable("bash")).endswith("/bash")


async def test_a_relative_directory_in_the_path_gives_an_absolute_result(
    root: Context, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(program.parent)
    found = await root[SUBPROCESS].resolve_executable("mine", env={"PATH": "."})
    assert found == str(program)


async def test_an_absolute_path_has_to_be_an_executable_file(root: Context, program: Path) -> None:
    assert await root[SUBPROCESS].resolve_executable(str(program)) == str(program)
    program.chmod(0o644)
    if os.geteuid() != 0 or not os.access(program, os.X_OK):
        with pytest.raises(SubprocessError):
            await root[SUBPROCESS].resolve_executable(str(program))


@pytest.mark.parametrize("command", ["", "no-such-program", "./mine", "sub/mine", "/", "/nowhere"])
async def test_anything_else_is_not_found(root: Context, command: str) -> None:
    with pytest.raises(SubprocessError) as caught:
        await root[SUBPROCESS].resolve_executable(command)
    assert caught.value.code == "EXECUTABLE_NOT_FOUND"


async def test_an_aborted_search_raises_the_reason(root: Context) -> None:
    controller = AbortController()
    controller.abort("stop")
    with pytest.raises(AbortedError) as caught:
        await root[SUBPROCESS].resolve_executable("bash", signal=controller.signal)
    assert caught.value.reason == "stop"


async def test_a_second_provider_of_the_service_fails(root: Context) -> None:
    with pytest.raises(CordisError) as caught:
        await root.plugin(LocalSubprocess)
    assert caught.value.code == "SERVICE_EXISTS"


async def test_it_takes_no_configuration() -> None:
    async with Context() as root:
        with pytest.raises(ConfigError, match="unknown key"):
            await root.plugin(LocalSubprocess, {"shell": "zsh"})
        assert root.get(SUBPROCESS) is None
