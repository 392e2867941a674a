"""Starting, reading, ending one child."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import AbortController, AbortedError
from dsh_subprocess import Collect, ProcessExit, SubprocessError

pytestmark = pytest.mark.anyio


async def test_output_and_status_of_a_child(spawn: Any, text: Any) -> None:
    handle = spawn("printf out; printf err >&2; exit 3")
    assert await handle.wait() == ProcessExit(3, None)
    assert text(handle) == "out"
    assert handle.collected_stderr.read_from(0).text == "err"
    assert (handle.stdin, handle.stdout, handle.stderr) == (None, None, None)
    assert await handle.wait_for_exit()
    assert not handle.tree_alive


async def test_a_child_that_a_signal_ends_has_no_exit_code(spawn: Any) -> None:
    assert await spawn("kill -USR1 $$").wait() == ProcessExit(None, "SIGUSR1")
    number = signal.SIGRTMIN + 3
    assert await spawn(f"kill -{number} $$").wait() == ProcessExit(None, f"SIG{number}")


async def test_a_child_without_stdin_reads_the_end_at_once(spawn: Any, text: Any) -> None:
    handle = spawn("cat; echo end")
    await handle.wait()
    assert text(handle) == "end\n"


async def test_given_input_reaches_the_child_and_ends(spawn: Any, text: Any) -> None:
    handle = spawn("wc -c; cat <&-", stdin=b"x" * 1_000_000)
    await handle.wait()
    assert text(handle) == "1000000\n"


@pytest.mark.parametrize("script", ["true", "exec <&-; sleep 0.1", "sleep 0.1", "read -n 1 x"])
async def test_input_for_a_child_that_never_reads_it_is_no_error(spawn: Any, script: str) -> None:
    handle = spawn(script, stdin=b"x" * 1_000_000)
    assert (await handle.wait()).exit_code == 0


async def test_raw_streams_are_the_callers(spawn: Any) -> None:
    handle = spawn("read line; echo got $line; cat >&2", stdin="pipe", stdout="pipe", stderr="pipe")
    await asyncio.gather(handle.opened(), handle.opened())
    handle.stdin.write(b"one\ntwo\n")
    assert await handle.stdout.readline() == b"got one\n"
    handle.stdin.close()
    assert await handle.stderr.read() == b"two\n"
    assert await handle.wait() == ProcessExit(0, None)
    assert handle.collected_stdout is handle.collected_stderr is None


async def test_raw_output_can_be_read_after_the_child_is_gone(spawn: Any) -> None:
    handle = spawn("echo early", stdout="pipe")
    await handle.wait_for_exit()
    await handle.opened()
    assert await handle.stdout.read() == b"early\n"


async def test_a_stream_can_be_inherited(spawn: Any, capfd: Any) -> None:
    await spawn("echo seen", stdout="inherit").wait()
    assert capfd.readouterr().out == "seen\n"


async def test_a_missing_working_directory_is_named(spawn: Any) -> None:
    handle = spawn("true", cwd="/nowhere/at/all")
    assert handle.pid == -1
    for wait in (handle.wait, handle.exited, handle.opened):
        with pytest.raises(SubprocessError, match="'/nowhere/at/all' does not exist") as caught:
            await wait()
        assert caught.value.code == "SPAWN_FAILED"
    assert await handle.wait_for_exit()
    assert not handle.tree_alive
    handle.terminate()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("no-such-program",), "No such file"),
        (("/",), "Permission denied"),
        (("true", "x" * 3_000_000), "too long"),
        (("true", "a\0b"), "null"),
    ],
)
async def test_a_program_that_cannot_start_says_why(
    spawn: Any, descriptors: Any, argv: tuple[str, ...], why: str
) -> None:
    before = descriptors()
    handle = spawn(argv=argv, stdin="pipe", stdout="pipe")
    with pytest.raises(SubprocessError, match=why) as caught:
        await handle.wait()
    assert caught.value.code == "SPAWN_FAILED"
    assert descriptors() == before


async def test_a_file_as_working_directory_fails_by_name(spawn: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SubprocessError, match="Not a directory"):
        await spawn("true", cwd=str(tmp_path / "file")).wait()


async def test_an_aborted_signal_starts_nothing(spawn: Any, tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort("late")
    with pytest.raises(AbortedError) as caught:
        spawn("touch ran", signal=controller.signal)
    assert caught.value.reason == "late"
    assert list(tmp_path.iterdir()) == []


async def test_abort_ends_the_child(spawn: Any, line: Any) -> None:
    controller = AbortController()
    handle = spawn("echo ready; sleep 300", signal=controller.signal, stdout="pipe")
    assert await line(handle) == "ready"
    controller.abort()
    assert await handle.wait() == ProcessExit(None, "SIGTERM")


async def test_what_traps_sigterm_is_killed_after_the_grace(spawn: Any, line: Any) -> None:
    handle = spawn("trap '' TERM; echo ready; while :; do sleep 0.01; done", stdout="pipe")
    await line(handle)
    handle.terminate()
    assert await handle.wait() == ProcessExit(None, "SIGKILL")


async def test_terminating_twice_signals_once(spawn: Any, line: Any) -> None:
    handle = spawn("trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done", stdout="pipe")
    await line(handle)
    handle.terminate()
    assert await line(handle) == "term"
    handle.terminate()
    await handle.wait()
    assert await handle.stdout.read() == b""


async def test_a_cancelled_waiter_leaves_the_others_waiting(spawn: Any, line: Any) -> None:
    handle = spawn("echo ready; sleep 300", stdout="pipe")
    await line(handle)
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(handle.wait()), group.create_task(handle.wait())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        handle.terminate()
    assert second.result() == ProcessExit(None, "SIGTERM")


async def test_the_environment_is_scrubbed_unless_given(
    spawn: Any, text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "ambient")
    monkeypatch.setenv("DSH_HOME", "/ambient")
    monkeypatch.setenv("PLAIN", "plain")
    script = 'echo "${A_SECRET-none} ${DSH_HOME-none} ${PLAIN-none}"'
    bare = spawn(script)
    given = spawn(script, env={"A_SECRET": "s", "DSH_HOME": "/h", "PLAIN": None})
    await bare.wait()
    await given.wait()
    assert (text(bare), text(given)) == ("none none plain\n", "s /h none\n")


async def test_a_child_has_no_terminal_of_its_own(spawn: Any, text: Any) -> None:
    handle = spawn("true 2>/dev/null </dev/tty || echo none")
    await handle.wait()
    assert text(handle) == "none\n"


async def test_nothing_of_this_process_but_the_pipes_is_inherited(spawn: Any, text: Any) -> None:
    handle = spawn(argv=("ls", "/proc/self/fd"))
    await handle.wait()
    assert text(handle).split() == ["0", "1", "2", "3"]  # 3 is the listing's own


async def test_long_output_keeps_its_tail_and_spills_the_whole(spawn: Any, tmp_path: Path) -> None:
    handle = spawn("seq 200000", stdout=Collect(max_bytes=100, spill_max_bytes=10_000_000))
    await handle.wait()
    whole = "".join(f"{number}\n" for number in range(1, 200_001))
    for _ in range(2):
        read = handle.collected_stdout.read_from(0)
        assert (read.text, read.lossy, read.next_offset) == (whole[-100:], True, len(whole))
    assert Path(read.spill_path).read_text() == whole


async def test_output_beyond_the_cap_of_its_file_keeps_the_tail_only(spawn: Any) -> None:
    handle = spawn("seq 200000", stdout=Collect(max_bytes=7, spill_max_bytes=70_000))
    await handle.wait()
    read = handle.collected_stdout.read_from(0)
    assert (read.text, read.lossy, read.spill_path) == ("200000\n", True, None)


async def test_the_handler_of_sigchld_stays_the_hosts(spawn: Any) -> None:
    before = signal.getsignal(signal.SIGCHLD)
    ours = spawn("exit 5")
    foreign = await asyncio.create_subprocess_exec("bash", "-c", "exit 6")
    assert await foreign.wait() == 6
    assert (await ours.wait()).exit_code == 5
    assert signal.getsignal(signal.SIGCHLD) is before


async def test_a_kernel_without_process_descriptors_will_do(
    spawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise PermissionError("seccomp")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    running = [spawn(f"exit {code}") for code in range(20)]
    codes = [(await handle.wait()).exit_code for handle in running]
    assert codes == list(range(20))
