"""Output that is long, endless or no text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dsh_bash_local import BashLocal
from dsh_cordis import Context
from dsh_shell import SHELL, ShellRequest
from dsh_subprocess_local import LocalSubprocess

pytestmark = pytest.mark.anyio

CAP = 64_000
MB = 1_000_000


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("short", range(9))
async def test_a_character_at_the_cap_is_whole_or_gone(run: Any, stream: str, short: int) -> None:
    size = CAP - short
    script = f"import sys; print('x' * {size} + '\N{GRINNING FACE}' * 50, file=sys.{stream})"
    done = await run(f'python3 -c "{script}"')
    read = getattr(done, stream)
    assert "\ufffd" not in read.text
    assert read.text == ("x" * size + "\N{GRINNING FACE}" * 50 + "\n")[-len(read.text) :]
    assert CAP - 3 <= len(read.text.encode()) <= CAP
    assert read.truncated


async def test_exactly_the_cap_is_whole(run: Any) -> None:
    done = await run(f"head -c {CAP} /dev/zero | tr '\\0' x")
    assert (done.stdout.text, done.stdout.truncated) == ("x" * CAP, False)


async def test_what_is_no_text_is_marked(run: Any) -> None:
    assert (await run(r"printf 'a\0b'")).stdout.text == "a\ufffdb"
    assert (await run(r"printf 'caf\xe9\n'")).stdout.text == "caf\ufffd\n"
    assert (await run(r"printf '\xf0\x9f\x98'")).stdout.text == "\ufffd"
    assert (await run(r"printf '\xed\xa0\x80'")).stdout.text == "\ufffd" * 3
    binary = (await run("head -c 400 /bin/ls")).stdout.text
    assert "\0" not in binary
    assert binary.encode().decode() == binary


@dataclass
class Load:
    """What the rest of the process noticed."""

    gap_s: float = 0.0
    beats: int = 0
    grown_bytes: int = 0


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def watched() -> AsyncIterator[Load]:
    """Another task of the process beside the block, with its longest wait for its turn."""
    load, before = Load(), resident()
    loop = asyncio.get_running_loop()

    async def beat() -> None:
        last = loop.time()
        while True:
            await asyncio.sleep(0.005)
            now = loop.time()
            load.gap_s, last = max(load.gap_s, now - last), now
            load.beats += 1
            load.grown_bytes = max(load.grown_bytes, resident() - before)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(beat())
        yield load
        task.cancel()


async def test_endless_output_ends_at_the_limit(run: Any, children: Any) -> None:
    before = children()
    async with watched() as load:
        done = await run("yes", timeout_ms=2000)
    assert (done.timed_out, done.signal, done.left_running) == (True, "SIGTERM", False)
    assert done.stdout.text == "y\n" * (CAP // 2)
    assert done.stdout.truncated
    if done.stdout.spill_path is not None:  # a machine too slow to fill the file in that time
        assert Path(done.stdout.spill_path).stat().st_size <= 67_108_864
    assert children() == before
    assert load.grown_bytes < 100 * MB
    assert load.beats > 20
    assert load.gap_s < 2


@pytest.mark.timeout(120)
async def test_two_gigabytes_cost_neither_memory_nor_the_turn_of_others(
    run: Any, children: Any
) -> None:
    before = children()
    async with watched() as load:
        done = await run(r"head -c 2000000000 /dev/zero | tr '\0' x")
    assert (done.exit_code, done.timed_out) == (0, False)
    assert (done.stdout.text, done.stdout.spill_path) == ("x" * CAP, None)
    assert children() == before
    assert load.grown_bytes < 100 * MB
    assert load.beats > 20
    assert load.gap_s < 2


async def test_the_file_obeys_its_cap(tmp_path: Path) -> None:
    async with Context() as root:
        await root.plugin(LocalSubprocess)
        await root.plugin(BashLocal, {"maxOutputBytes": 10, "maxSpillBytes": 1000})
        shell = root[SHELL]
        kept = await shell.run(shell.resolve(ShellRequest(command="printf %1000s end")))
        lost = await shell.run(shell.resolve(ShellRequest(command="printf %1001s end")))
    assert (kept.stdout.text, lost.stdout.text) == ("       end", "       end")
    assert kept.stdout.spill_path is not None
    assert Path(kept.stdout.spill_path).read_text() == " " * 997 + "end"
    assert lost.stdout.spill_path is None
