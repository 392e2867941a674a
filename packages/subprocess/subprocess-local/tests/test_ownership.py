"""Nothing that was started outlives its owner, and nothing leaks."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import AbortController, Context, CordisError, unwrap
from dsh_subprocess import SUBPROCESS, Collect, ProcessExit, SpawnSpec
from dsh_subprocess_local import LocalSubprocess

pytestmark = pytest.mark.anyio

TRAPPING = "trap '' TERM; while :; do sleep 0.01; done"


async def test_a_descendant_that_holds_the_output_delays_the_result_by_the_grace_only(
    spawn: Any, text: Any
) -> None:
    handle = spawn("sleep 60 & echo shell-done", grace_ms=100)
    assert await handle.wait() == ProcessExit(0, None)
    assert text(handle) == "shell-done\n"
    assert handle.tree_alive
    handle.terminate()
    assert await handle.wait_for_exit()


async def test_the_exit_is_known_before_the_output_ends(spawn: Any, line: Any) -> None:
    handle = spawn("sleep 60 & exit 4", grace_ms=60_000)
    assert await handle.exited() == ProcessExit(4, None)
    handle.terminate()
    assert await handle.wait() == ProcessExit(4, None)


async def test_the_tree_is_alive_until_its_last_helper_is_gone(spawn: Any, line: Any) -> None:
    handle = spawn(f"({TRAPPING}) >/dev/null 2>&1 & echo $!; disown", stdout="pipe")
    await line(handle)
    await handle.wait()
    soon = AbortController()
    asyncio.get_running_loop().call_later(0.02, soon.abort)
    assert await handle.wait_for_exit(soon.signal) is False
    handle.terminate()
    assert await handle.wait_for_exit() is True
    assert not handle.tree_alive


@pytest.mark.parametrize(
    "script",
    [
        "timeout 300 sleep 299; true",
        "(timeout 300 sleep 299 &) ; sleep 300",
        "set -m; sleep 300 & sleep 301",
        "sleep 300 | sleep 301 | sleep 302",
        "bash -c 'trap \"\" INT TERM; sleep 300' & sleep 301",
    ],
)
async def test_every_process_of_the_tree_ends_whatever_its_group(
    spawn: Any, runs: Any, script: str
) -> None:
    handle = spawn(f"{{ {script}; }}")
    members = await started(handle, script.count("sleep "))
    handle.terminate()
    assert await handle.wait_for_exit()
    assert [pid for pid in members if runs(pid)] == []


async def started(handle: Any, count: int) -> list[int]:
    """The `sleep` processes of a session once all of them run."""
    async with asyncio.timeout(10):
        while True:
            members = [pid for pid in map(int, pids()) if session(pid) == handle.pid]
            if sum(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in members) >= count:
                return members
            await asyncio.sleep(0.005)


def pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


async def test_unload_ends_running_trees_and_waits_for_them(
    tmp_path: Path, runs: Any, children: Any
) -> None:
    before = children()
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        spec = SpawnSpec(
            argv=("bash", "-c", f"trap '' TERM; ({TRAPPING}) & echo $!; {TRAPPING}"),
            cwd=str(tmp_path),
            stdin="ignore",
            stdout="pipe",
            stderr=Collect(max_bytes=10),
            grace_ms=100,
        )
        handle = root[SUBPROCESS].spawn(spec)
        await handle.opened()
        assert handle.stdout is not None
        helper = int(await handle.stdout.readline())
        assert runs(helper)
    assert not runs(helper)
    assert await handle.wait() == ProcessExit(None, "SIGKILL")
    assert children() == before


async def test_a_tree_without_its_leader_still_ends_with_the_owner(
    tmp_path: Path, runs: Any
) -> None:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        spec = SpawnSpec(
            argv=("bash", "-c", "timeout 300 sleep 299 >/dev/null 2>&1 & echo $!"),
            cwd=str(tmp_path),
            stdin="ignore",
            stdout=Collect(max_bytes=100),
            stderr=Collect(max_bytes=100),
            grace_ms=100,
        )
        handle = root[SUBPROCESS].spawn(spec)
        await handle.wait()
        assert handle.collected_stdout is not None
        helper = int(handle.collected_stdout.read_from(0).text)
        assert runs(helper)
    assert not runs(helper)


async def test_a_service_on_its_way_out_starts_nothing(tmp_path: Path, children: Any) -> None:
    before = children()
    async with Context() as root:
        fiber = await root.plugin(LocalSubprocess)
        service = root[SUBPROCESS]
        await fiber.dispose()
        spec = SpawnSpec(
            argv=("sleep", "300"),
            cwd=str(tmp_path),
            stdin="pipe",
            stdout="pipe",
            stderr=Collect(max_bytes=1),
            grace_ms=100,
        )
        with pytest.raises(CordisError) as caught:
            service.spawn(spec)
        assert caught.value.code == "INACTIVE_EFFECT"
        assert children() == before


async def test_fifty_commands_leave_no_descriptor_and_no_child(
    root: Context, spawn: Any, descriptors: Any, children: Any
) -> None:
    fds, kids = descriptors(), children()
    for number in range(50):
        handle = spawn("cat; seq 30000; echo x >&2", stdin=b"y" * 100)
        assert (await handle.wait()).exit_code == 0
        if number % 10 == 0:
            handle = spawn("echo ready; sleep 300")
            handle.terminate()
        await handle.wait_for_exit()
    await asyncio.sleep(0)  # the last supervisor's own end
    assert (descriptors(), children()) == (fds, kids)


async def test_raw_streams_nobody_read_are_closed_with_their_owner(
    tmp_path: Path, descriptors: Any
) -> None:
    before = descriptors()
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        for script, opened in itertools.product(
            ("seq 1000000", "sleep 300", "true"), (True, False)
        ):
            spec = SpawnSpec(
                argv=("bash", "-c", script),
                cwd=str(tmp_path),
                stdin="pipe",
                stdout="pipe",
                stderr="pipe",
                grace_ms=100,
            )
            handle = root[SUBPROCESS].spawn(spec)
            if opened:
                await handle.opened()
                assert handle.stdin is not None
                handle.stdin.write(b"x" * 1_000_000)
                handle.stdin.close()
                await handle.exited() if script == "true" else None
        assert len(descriptors()) > len(before)
    await asyncio.sleep(0)  # transports close in the next round of the loop
    assert descriptors() == before


HOST = """
import asyncio, os, sys
from dsh_cordis import Context
from dsh_subprocess import SUBPROCESS, Collect, SpawnSpec
from dsh_subprocess_local import LocalSubprocess

async def main():
    root = Context()
    await root.plugin(LocalSubprocess)
    script = "trap '' TERM; (timeout 300 sleep 299 & echo $!); echo $$; sleep 300"
    handle = root[SUBPROCESS].spawn(SpawnSpec(
        argv=("bash", "-c", script), cwd="/", stdin="ignore", stdout="pipe",
        stderr=Collect(max_bytes=10), grace_ms=5000))
    await handle.opened()
    for _ in range(2):
        print((await handle.stdout.readline()).decode().strip(), flush=True)
    await leave(handle)

"""

ENDINGS = {
    "return": """
async def leave(handle):
    return
asyncio.run(main())
sys.exit(7)
""",
    "exit": """
async def leave(handle):
    sys.exit(7)
asyncio.run(main())
""",
    "cancelled": """
async def leave(handle):
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    try:
        await handle.wait()
    except Exception as error:
        assert error.code == "PROCESS_LOST", error
        sys.exit(7)
asyncio.run(main())
""",
    "closed loop": """
async def leave(handle):
    return
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
sys.exit(7)
""",
    "unhandled": """
async def leave(handle):
    os.kill(os.getpid(), 2)
    await asyncio.sleep(60)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(7)
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_host_that_ends_without_disposal_kills_its_trees(ending: str, runs: Any) -> None:
    program = textwrap.dedent(HOST + ENDINGS[ending])
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert [pid for pid in pids if runs(pid)] == []
    assert done.returncode == 7, done.stderr
    assert done.stderr == ""


async def test_the_exit_hook_goes_with_the_service() -> None:
    async with Context() as root:
        fiber = await root.plugin(LocalSubprocess)
        service = weakref.ref(unwrap(root[SUBPROCESS]))
        await fiber.dispose()
    del fiber, root
    gc.collect()
    assert service() is None, "a hook that stayed would hold it"


async def test_a_tree_that_was_seen_gone_is_never_signalled_again(
    spawn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = spawn("true")
    await handle.wait_for_exit()
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, number: sent.append(group))
    handle.terminate()
    assert sent == []


async def test_output_after_the_result_is_dropped_and_breaks_nobody(
    spawn: Any, text: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    handle = spawn("(read x <go; seq 100000 && echo well >written) & echo front", grace_ms=50)
    await handle.wait()
    with go.open("w") as file:
        file.write("go\n")
    assert await handle.wait_for_exit()
    assert (tmp_path / "written").read_text() == "well\n"
    assert text(handle) == "front\n"


async def test_a_process_that_left_the_tree_holds_no_descriptor_beyond_the_unload(
    tmp_path: Path, descriptors: Any
) -> None:
    before = descriptors()
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        spec = SpawnSpec(
            argv=("bash", "-c", "setsid sleep 300 & echo $!"),
            cwd=str(tmp_path),
            stdin="ignore",
            stdout=Collect(max_bytes=100),
            stderr=Collect(max_bytes=100),
            grace_ms=50,
        )
        handle = root[SUBPROCESS].spawn(spec)
        assert await handle.wait() == ProcessExit(0, None)
        assert handle.collected_stdout is not None
        escaped = int(handle.collected_stdout.read_from(0).text)
    assert descriptors() == before
    os.kill(escaped, 9)
