"""Writer locks."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from dsh_atomic_write import AtomicWriteError, file_lock

pytestmark = pytest.mark.anyio

_HOLDER = """
import asyncio, sys
from dsh_atomic_write import file_lock

async def main():
    async with file_lock(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


async def test_a_held_lock_times_out_and_names_the_file(tmp_path: Path) -> None:
    async with file_lock(tmp_path / "a"):
        with pytest.raises(AtomicWriteError) as caught:
            async with file_lock(tmp_path / "a", wait_ms=50):
                pass
    assert caught.value.code == "LOCK_TIMEOUT"
    assert str(caught.value) == (
        f"atomic-write: timed out waiting for the writer lock at {tmp_path / 'a'}.lock"
    )


async def test_a_waiter_gets_the_lock_after_its_release(tmp_path: Path) -> None:
    order: list[str] = []

    async def wait() -> None:
        async with file_lock(tmp_path / "a", wait_ms=15000):
            order.append("second")

    async with file_lock(tmp_path / "a"):
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        order.append("first")
    await waiter
    assert order == ["first", "second"]


async def test_locks_of_other_files_do_not_wait(tmp_path: Path) -> None:
    async with file_lock(tmp_path / "a"), file_lock(tmp_path / "b", wait_ms=0):
        pass


async def test_the_lock_file_is_private_and_holds_the_pid(tmp_path: Path) -> None:
    async with file_lock(tmp_path / "deep" / "a"):
        lock = tmp_path / "deep" / "a.lock"
        assert lock.read_text() == f"{os.getpid()}\n"
        assert lock.stat().st_mode & 0o777 == 0o600


async def test_a_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDER, str(tmp_path / "a"), stdin=pipe, stdout=pipe
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    with pytest.raises(AtomicWriteError):
        async with file_lock(tmp_path / "a", wait_ms=0):
            pass
    holder.kill()
    await holder.communicate()
    async with file_lock(tmp_path / "a", wait_ms=0):
        pass


async def test_a_deleted_lock_file_is_made_again(tmp_path: Path) -> None:
    async with file_lock(tmp_path / "a"):
        (tmp_path / "a.lock").unlink()
    async with file_lock(tmp_path / "a"):
        with pytest.raises(AtomicWriteError):
            async with file_lock(tmp_path / "a", wait_ms=0):
                pass


async def test_the_block_failing_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with file_lock(tmp_path / "a"):
            raise ZeroDivisionError
    async with file_lock(tmp_path / "a", wait_ms=0):
        pass
