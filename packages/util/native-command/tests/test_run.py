"""Real programs: what they said, how they failed, and that they are gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from dsh_cordis import AbortController
from dsh_native_command import CommandOutput, NativeCommandError, run_native_command

pytestmark = pytest.mark.anyio

SILENT = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"


def python(code: str) -> tuple[str, list[str]]:
    return sys.executable, ["-I", "-c", code]


def alive(pid: int) -> bool:
    """Whether it runs; what waits for its parent to take notice does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def started(file: Path) -> list[int]:
    """The process ids that a program has written by the time it is ready."""
    with anyio.fail_after(15):
        while not file.exists():
            await anyio.sleep(0.005)
    return [int(word) for word in file.read_text().split()]


async def gone(*pids: int) -> None:
    with anyio.fail_after(15):
        while any(alive(pid) for pid in pids):
            await anyio.sleep(0.005)


def family(file: Path, rest: str) -> tuple[str, list[str]]:
    """A program with a child of its own; both ignore SIGTERM."""
    return python(
        f"{SILENT} child = os.fork()\n"
        f"if not child: time.sleep(600)\n"
        f"open({str(file)!r} + '~', 'w').write(f'{{os.getpid()}} {{child}}')\n"
        f"os.rename({str(file)!r} + '~', {str(file)!r})\n"
        f"{rest}"
    )


async def test_both_streams_of_a_success_are_returned() -> None:
    command, arguments = python("import sys; print('out é'); print('err', file=sys.stderr)")
    assert await run_native_command(command, arguments) == CommandOutput("out é\n", "err\n")


async def test_arguments_reach_the_program_as_they_are_without_a_shell() -> None:
    words = ["a b", "$HOME", "; echo x", "*", "", "'"]
    command, arguments = python("import json, sys; print(json.dumps(sys.argv[1:]))")
    output = await run_native_command(command, [*arguments, *words])
    assert output.stdout == '["a b", "$HOME", "; echo x", "*", "", "\'"]\n'


async def test_a_failure_has_its_status_and_both_streams() -> None:
    code = "import sys; print('half'); print('why', file=sys.stderr); sys.exit(3)"
    with pytest.raises(NativeCommandError) as raised:
        await run_native_command(*python(code))
    error = raised.value
    assert (error.code, error.exit_code) == ("COMMAND_FAILED", 3)
    assert (error.stdout, error.stderr) == ("half\n", "why\n")
    assert str(error).endswith("failed with exit status 3")
    assert "why" not in str(error), "output may hold what no log should"


async def test_a_program_that_a_signal_ends_has_failed() -> None:
    with pytest.raises(NativeCommandError, match="ended by signal 9") as raised:
        await run_native_command(*python("import os; os.kill(os.getpid(), 9)"))
    assert raised.value.exit_code == -signal.SIGKILL


async def test_an_abort_kills_the_whole_process_group(tmp_path: Path) -> None:
    controller = AbortController()
    reason = RuntimeError("no longer wanted")
    file = tmp_path / "pids"
    command, arguments = family(file, "time.sleep(600)")
    pids: list[int] = []

    async def abort() -> None:
        pids.extend(await started(file))
        controller.abort(reason)

    async with anyio.create_task_group() as group:
        group.start_soon(abort)
        with pytest.raises(RuntimeError) as raised:
            await run_native_command(command, arguments, controller.signal)
    assert raised.value is reason
    assert len(pids) == 2
    await gone(*pids)


async def test_an_aborted_signal_starts_nothing(tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort(RuntimeError("too late"))
    file = tmp_path / "pids"
    with pytest.raises(RuntimeError, match="too late"):
        await run_native_command(*family(file, ""), controller.signal)
    assert not file.exists()


async def test_a_cancelled_caller_returns_once_the_process_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    command, arguments = family(file, "time.sleep(600)")
    async with anyio.create_task_group() as group:
        group.start_soon(run_native_command, command, arguments)
        leader, child = await started(file)
        group.cancel_scope.cancel()
    assert not Path(f"/proc/{leader}").exists(), "it was waited for"
    await gone(child)


async def test_a_caller_that_is_cancelled_at_the_start_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_native_command(*family(file, "time.sleep(600)"))
    assert scope.cancelled_caught
    if file.exists():
        await gone(*await started(file))


async def test_an_abort_after_the_end_changes_nothing() -> None:
    controller = AbortController()
    output = await run_native_command(*python("print('done')"), controller.signal)
    controller.abort()
    assert output.stdout == "done\n"


async def test_more_output_than_allowed_ends_the_program(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    command, arguments = family(file, "while True: sys.stdout.write('x' * 4096)")
    with pytest.raises(NativeCommandError) as raised:
        await run_native_command(command, arguments, max_output_bytes=10_000)
    assert raised.value.code == "COMMAND_OUTPUT_LIMIT"
    assert raised.value.stdout == "x" * 10_000
    await gone(*await started(file))


async def test_exactly_as_much_output_as_allowed_is_fine() -> None:
    output = await run_native_command(*python("print('x' * 9)"), max_output_bytes=10)
    assert output.stdout == "x" * 9 + "\n"


async def test_a_helper_left_in_the_background_does_not_hold_the_caller(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    command, arguments = family(file, "print('opened', flush=True)")
    output = await run_native_command(command, arguments)
    _, helper = await started(file)
    try:
        assert output.stdout == "opened\n"
        assert alive(helper), "what a success left running is left alone"
    finally:
        os.kill(helper, signal.SIGKILL)
    await gone(helper)


async def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(NativeCommandError, match="no command 'dsh-no-such'") as raised:
        await run_native_command("dsh-no-such")
    assert (raised.value.code, raised.value.exit_code) == ("COMMAND_NOT_FOUND", None)


async def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(NativeCommandError, match="missing") as raised:
        await run_native_command("true", cwd=tmp_path / "missing")
    assert raised.value.code == "COMMAND_NOT_STARTED"


async def test_a_file_that_is_no_program_is_not_started(tmp_path: Path) -> None:
    file = tmp_path / "plain"
    file.write_text("")
    with pytest.raises(NativeCommandError, match="could not be started") as raised:
        await run_native_command(str(file))
    assert raised.value.code == "COMMAND_NOT_STARTED"


async def test_an_argument_with_a_null_byte_is_not_started() -> None:
    with pytest.raises(NativeCommandError) as raised:
        await run_native_command("true", ["a\0b"])
    assert raised.value.code == "COMMAND_NOT_STARTED"


async def test_a_program_inherits_neither_credentials_nor_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "secret")
    monkeypatch.setenv("DSH_HOME", "/x")
    monkeypatch.setenv("GH_PAT", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    output = await run_native_command(*python("import os; print(' '.join(sorted(os.environ)))"))
    names = output.stdout.split()
    assert {"PATH", "HOME", "LC_TIME"} <= set(names)
    assert {"DEEPSEEK_API_KEY", "DSH_HOME", "GH_PAT"}.isdisjoint(names)


async def test_a_given_environment_is_the_whole_of_it() -> None:
    output = await run_native_command("/usr/bin/env", env={"ONLY": "this"})
    assert output.stdout == "ONLY=this\n"


async def test_a_program_that_reads_finds_an_empty_input() -> None:
    command, arguments = python("import sys; print(repr(sys.stdin.read()))")
    assert (await run_native_command(command, arguments)).stdout == "''\n"


async def test_many_at_a_time_keep_their_output_apart() -> None:
    outputs: dict[int, str] = {}

    async def run(number: int) -> None:
        outputs[number] = (await run_native_command("printf", [str(number)])).stdout

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(run, number)
    assert outputs == {number: str(number) for number in range(20)}


async def test_nothing_stays_open() -> None:
    await run_native_command("true")
    tasks, descriptors = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await run_native_command("true")
    await anyio.sleep(0)
    assert len(asyncio.all_tasks()) == tasks
    assert len(os.listdir("/proc/self/fd")) == descriptors
