from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import anyio
import pytest
from dsh_app_boot import Shutdown
from dsh_cordis import Context

pytestmark = pytest.mark.anyio


class Forced:
    """Stands for the end of the process and remembers the status."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.happened = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.happened.set()


async def test_the_first_code_wins_and_everything_is_unloaded():
    journal: list[str] = []
    shutdown = Shutdown(force=Forced())
    root = Context()
    shutdown.attach(root)
    root.effect(lambda: lambda: journal.append("unloaded"))
    shutdown.app_exit(3)
    shutdown.app_exit(4)
    assert await shutdown.wait() == 3
    assert journal == ["unloaded"]


async def test_a_request_from_another_thread_is_heard():
    shutdown = Shutdown(force=Forced())
    shutdown.attach(Context())
    await anyio.to_thread.run_sync(shutdown.request, 5)
    assert await shutdown.wait() == 5


async def test_a_request_before_the_loop_ends_it_as_soon_as_it_runs():
    shutdown = Shutdown(force=Forced())
    shutdown.request(6)
    shutdown.attach(Context())
    assert await shutdown.wait() == 6


async def test_a_disposer_that_hangs_is_cut_off_with_the_requested_code():
    forced = Forced()
    shutdown = Shutdown(force=forced)
    root = Context()
    shutdown.attach(root)
    release = asyncio.Event()

    async def hang() -> None:
        await release.wait()

    root.effect(lambda: hang)
    shutdown.request(7, grace_s=0.01)
    await anyio.to_thread.run_sync(forced.happened.wait)
    assert forced.codes == [7]
    release.set()
    assert await shutdown.wait() == 7


def test_an_end_without_a_thread_to_be_had_still_ends():
    code = """
import asyncio, signal, threading
from dsh_app_boot import Shutdown
from dsh_cordis import Context

def refuse(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refuse

async def main():
    shutdown = Shutdown()
    root = Context()
    shutdown.attach(root)
    root.effect(lambda: asyncio.Event().wait)
    shutdown.request(7, grace_s=0.01)
    await shutdown.wait()

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=20, check=False)
    assert ended.returncode == -signal.SIGALRM
