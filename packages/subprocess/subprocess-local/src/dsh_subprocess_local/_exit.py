"""Learning that a child ended, without SIGCHLD: its handler belongs to the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading

from dsh_subprocess import ProcessExit


async def reap(popen: subprocess.Popen[bytes]) -> ProcessExit:
    """Wait for the direct child and collect its status."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()
    try:
        descriptor = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):  # not Linux, or a sandbox that refuses
        _wait_in_thread(loop, popen, exited)
        await exited
    else:
        loop.add_reader(descriptor, _resolve, exited)
        try:
            await exited
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    return _exit_of(popen.wait())


def _wait_in_thread(
    loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes], exited: asyncio.Future[None]
) -> None:
    def wait() -> None:
        popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop closed before the child ended
            loop.call_soon_threadsafe(_resolve, exited)

    # A thread of its own: the loop's pool is small, and a child may live for hours.
    threading.Thread(target=wait, name=f"wait for {popen.pid}", daemon=True).start()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _exit_of(code: int) -> ProcessExit:
    if code >= 0:
        return ProcessExit(code, None)
    with contextlib.suppress(ValueError):
        return ProcessExit(None, signal.Signals(-code).name)
    return ProcessExit(None, f"SIG{-code}")  # real-time signals have no name of their own
