"""What a command gets and gives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import ConfigError, Context
from dsh_shell import SHELL, ShellError, ShellRequest, StreamText
from dsh_subprocess import SubprocessError
from dsh_subprocess_local import LocalSubprocess

pytestmark = pytest.mark.anyio


async def test_a_command_gives_its_output_and_status(run: Any) -> None:
    done = await run("printf out; printf err >&2; exit 3")
    assert (done.exit_code, done.signal) == (3, None)
    assert (done.timed_out, done.aborted, done.left_running) == (False, False, False)
    assert done.timeout_ms == 120_000
    assert done.stdout == StreamText("out", truncated=False, spill_path=None)
    assert done.stderr.text == "err"


async def test_a_command_that_ends_itself_by_a_signal_neither_timed_out_nor_was_aborted(
    run: Any,
) -> None:
    done = await run("kill -TERM $$")
    assert (done.exit_code, done.signal) == (None, "SIGTERM")
    assert (done.timed_out, done.aborted) == (False, False)


async def test_no_state_survives_a_command(run: Any) -> None:
    await run("cd /; x=1; f() { :; }; export y=2")
    done = await run("echo ${x-none} ${y-none}; type -t f; pwd")
    assert done.stdout.text.splitlines()[0] == "none none"
    assert done.stdout.text.splitlines()[-1] != "/"


async def test_no_startup_file_is_read(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".bashrc", ".bash_profile", ".profile"):
        (tmp_path / name).write_text("echo startup\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BASH_ENV", str(tmp_path / ".bashrc"))
    monkeypatch.setenv("SSH_CLIENT", "127.0.0.1 1 2")
    monkeypatch.setenv("SHLVL", "0")
    assert (await run("echo command")).stdout.text == "command\n"


async def test_directories_are_relative_to_the_configured_one(run: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert (await run("pwd")).stdout.text == f"{tmp_path}\n"
    assert (await run("pwd", workdir="sub")).stdout.text == f"{tmp_path}/sub\n"
    assert (await run("pwd", workdir="/")).stdout.text == "/\n"


async def test_without_a_configured_directory_the_process_own_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        await root.plugin(BashLocal)
        monkeypatch.chdir(tmp_path)
        assert root[SHELL].resolve(ShellRequest(command="true")).workdir == str(tmp_path)


async def test_commands_run_elsewhere_when_the_process_own_directory_is_gone(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = tmp_path / "lost"
    lost.mkdir()
    monkeypatch.chdir(lost)
    lost.rmdir()
    assert (await run("pwd", workdir="/")).stdout.text == "/\n"
    assert (await run("pwd")).stdout.text == f"{tmp_path}\n"


async def test_a_missing_directory_is_an_error_that_names_it(run: Any) -> None:
    with pytest.raises(SubprocessError, match="'/nowhere' does not exist") as caught:
        await run("true", workdir="/nowhere")
    assert caught.value.code == "SPAWN_FAILED"


async def test_the_environment_is_quiet_scrubbed_and_layered(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("EDITOR", "code --wait")
    script = "echo $NO_COLOR $TERM $PAGER $GIT_PAGER ${EDITOR-none} ${MY_TOKEN-none} ${DSH_X-none}"
    assert (await run(script)).stdout.text == "1 dumb cat cat none none none\n"
    env = {"PAGER": "less", "DSH_X": "env", "NO_COLOR": None, "EDITOR": "ed"}
    done = await run(script, env=env, dsh_env={"DSH_X": "harness"})
    assert done.stdout.text == "dumb less cat ed none harness\n"


async def test_given_input_is_read_and_its_absence_is_the_end(run: Any) -> None:
    assert (await run("cat", stdin=b"given")).stdout.text == "given"
    assert (await run("cat; echo end")).stdout.text == "end\n"


@pytest.mark.parametrize("command", ["", " \n\t", "echo a\0b"])
async def test_a_command_that_cannot_be_one_is_refused(root: Context, command: str) -> None:
    with pytest.raises(ShellError) as caught:
        root[SHELL].resolve(ShellRequest(command=command))
    assert caught.value.code == "INVALID_SHELL_REQUEST"


async def test_a_limit_is_clamped_to_the_maximum_and_zero_is_refused(root: Context) -> None:
    shell = root[SHELL]
    assert shell.resolve(ShellRequest(command="x", timeout_ms=1e9)).timeout_ms == 600_000
    assert shell.resolve(ShellRequest(command="x")).timeout_ms == 120_000
    assert (shell.default_timeout_ms, shell.max_timeout_ms) == (120_000, 600_000)
    with pytest.raises(ConfigError) as caught:
        shell.resolve(ShellRequest(command="x", timeout_ms=0))
    assert caught.value.code == "INVALID_TIMEOUT"


@pytest.mark.parametrize("key", ["timeoutMs", "maxTimeoutMs", "graceMs", "maxOutputBytes"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 2_147_483_648.5])
async def test_a_limit_that_is_none_fails_at_load(key: str, value: float) -> None:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        with pytest.raises(ConfigError):
            await root.plugin(BashLocal, {key: value})


async def test_nothing_confines_the_commands(root: Context) -> None:
    assert root[SHELL].sandbox_mode is None
    assert root[SHELL].resolve(ShellRequest(command="true")).workdir.startswith(os.sep)
