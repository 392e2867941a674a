"""The task from standard input."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from dsh_cordis import AbortSignal

from ._errors import HeadlessError

_READ_BYTES: Final = 65_536


async def read_stdin(signal: AbortSignal) -> str:
    """Standard input to its end, as UTF-8. Raises `HeadlessError`, or the signal's reason.

    Waits on the descriptor instead of reading in a thread, because a thread that is blocked on a
    pipe nobody closes would keep the process alive. The descriptor stays blocking: it is shared
    with whoever started this process.
    """
    if sys.stdin is None or sys.stdin.closed:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
        raise HeadlessError("stdin is closed; give the task as words", code="INVALID_TASK")
    descriptor = sys.stdin.fileno()
    chunks: list[bytes] = []
    while True:
        await _readable(descriptor, signal)
        chunk = os.read(descriptor, _READ_BYTES)
        if not chunk:
            break
        chunks.append(chunk)
    try:
        return b"".join(chunks).decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise HeadlessError(
            f"the task on stdin is not UTF-8 text (byte {error.start})", code="INVALID_TASK"
        ) from None


async def _readable(descriptor: int, signal: AbortSignal) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # regular files and /dev/null cannot be waited for, and never block
    try:
        async with signal.scope():
            await ready.wait()
    finally:
        loop.remove_reader(descriptor)
