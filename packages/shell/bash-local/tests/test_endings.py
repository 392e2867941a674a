"""Limits, aborts and what stays in the background."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import AbortController, Context
from dsh_shell import SHELL, ShellRequest
from dsh_subprocess_local import LocalSubprocess

pytestmark = pytest.mark.anyio


async def appears(path: Path) -> str:
    """The first line of a file that a command will write."""
    async with asyncio.timeout(10):
        while not path.exists() or not path.read_text().endswith("\n"):
            await asyncio.sleep(0.005)
    return path.read_text().strip()


async def test_a_command_that_outlasts_its_limit_is_ended(run: Any) -> None:
    done = await run("echo begun; sleep 300", timeout_ms=100)
    assert (done.timed_out, done.aborted, done.timeout_ms) == (True, False, 100)
    assert (done.exit_code, done.signal, done.stdout.text) == (None, "SIGTERM", "begun\n")


async def test_a_command_may_end_well_when_told_to(run: Any) -> None:
    done = await run("trap 'exit 0' TERM; while :; do sleep 0.01; done", timeout_ms=1000)
    assert (done.timed_out, done.exit_code, done.signal) == (True, 0, None)


async def test_a_tree_that_traps_the_signal_is_gone_after_the_grace(
    run: Any, tmp_path: Path, runs: Any
) -> None:
    trap = "trap '' TERM INT; while :; do sleep 0.01; done"
    command = f'bash -c "{trap}" & bash -c "{trap}" & echo $$ $! > pids; {trap}'
    done = await run(command, timeout_ms=1000)
    assert (done.timed_out, done.signal, done.left_running) == (True, "SIGKILL", False)
    assert [pid for pid in map(int, (tmp_path / "pids").read_text().split()) if runs(pid)] == []


@pytest.mark.parametrize(
    "command",
    [
        "echo $$ > pid; sleep 300",
        "bash -c 'trap \"\" INT; echo $$ > pid; sleep 300' & sleep 301",
        "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done",
        "cd .; timeout 300 bash -c 'echo $$ > pid; sleep 299; true'; true",
    ],
)
async def test_an_abort_in_the_middle_leaves_no_process(
    root: Context, tmp_path: Path, runs: Any, children: Any, command: str
) -> None:
    before = children()
    shell, controller = root[SHELL], AbortController()
    spec = shell.resolve(ShellRequest(command=command, signal=controller.signal))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(shell.run(spec))
        pid = int(await appears(tmp_path / "pid"))
        controller.abort("interrupt")
    done = task.result()
    assert (done.aborted, done.timed_out, done.left_running) == (True, False, False)
    assert not runs(pid)
    assert children() == before


async def test_a_cancelled_caller_takes_its_command_along(
    root: Context, tmp_path: Path, runs: Any
) -> None:
    shell = root[SHELL]
    command = "trap 'echo told > told; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(shell.run(shell.resolve(ShellRequest(command=command))))
        await appears(tmp_path / "pid")
        task.cancel()
    assert task.cancelled()
    assert await appears(tmp_path / "told") == "told"


async def test_a_command_under_an_aborted_signal_does_not_run(run: Any, tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort()
    done = await run("touch ran", signal=controller.signal)
    assert (done.aborted, done.exit_code, done.signal) == (True, None, None)
    assert list(tmp_path.iterdir()) == []


async def test_the_limit_and_an_abort_have_one_winner(run: Any) -> None:
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.15, controller.abort)
    command = "trap '' TERM; while :; do sleep 0.01; done"
    done = await run(command, timeout_ms=50, signal=controller.signal)
    assert (done.timed_out, done.aborted) == (True, False)


async def test_an_outer_limit_is_an_abort_here(run: Any) -> None:
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.05, controller.abort, TimeoutError("outer"))
    done = await run("sleep 300", timeout_ms=60_000, signal=controller.signal)
    assert (done.timed_out, done.aborted) == (False, True)


async def test_a_server_in_the_background_stays_until_its_owner_goes(
    tmp_path: Path, runs: Any
) -> None:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        await root.plugin(BashLocal, {"cwd": str(tmp_path), "graceMs": 200})
        shell = root[SHELL]
        server = "(while :; do echo tick; sleep 0.05; done) & echo $! > pid; sleep 0.3; "
        first = await shell.run(shell.resolve(ShellRequest(command=server + "echo front-done")))
        assert (first.exit_code, first.left_running, first.timed_out) == (0, True, False)
        assert "front-done\n" in first.stdout.text
        pid = int((tmp_path / "pid").read_text())
        assert runs(pid), "its output is read on, so that it does not die of a closed pipe"
        second = await shell.run(shell.resolve(ShellRequest(command="echo next")))
        assert (second.stdout.text, second.left_running) == ("next\n", False)
    assert not runs(pid)


async def test_a_chatty_background_process_neither_blocks_nor_breaks(
    run: Any, tmp_path: Path
) -> None:
    for delay in ("", "sleep 0.5; "):
        done = await run(f"({delay}seq 100000; echo all-written > done) & echo front")
        assert done.exit_code == 0
        assert await appears(tmp_path / "done") == "all-written"
        (tmp_path / "done").unlink()


async def test_what_a_command_left_running_does_not_make_it_time_out(
    run: Any, tmp_path: Path, runs: Any
) -> None:
    done = await run("sleep 300 & echo $!", timeout_ms=100)
    assert (done.exit_code, done.timed_out, done.left_running) == (0, False, True)
    assert runs(int(done.stdout.text))


async def test_a_background_process_outlives_the_shell_service_only(
    tmp_path: Path, runs: Any
) -> None:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        bash = await root.plugin(BashLocal, {"cwd": str(tmp_path), "graceMs": 200})
        shell = root[SHELL]
        done = await shell.run(
            shell.resolve(ShellRequest(command="sleep 300 >/dev/null 2>&1 & echo $!"))
        )
        pid = int(done.stdout.text)
        await bash.dispose()
        assert runs(pid)
    assert not runs(pid)


async def test_helpers_that_end_with_the_command_do_not_count_as_left_running(run: Any) -> None:
    for _ in range(20):
        done = await run("diff <(seq 2000) <(seq 2000 | sort -n) && cat <(echo x) >/dev/null")
        assert (done.exit_code, done.left_running) == (0, False)
