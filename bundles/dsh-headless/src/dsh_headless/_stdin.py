"""The task from standard input."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from dsh_cordis import AbortSignal

from ._errors import HeadlessError

_READ_BYTES: Final = 65_536
MAX_TASK_BYTES: Final = 16 * 1024 * 1024
"""Far beyond what any model reads; a stream without end must not fill the memory."""


async def read_stdin(signal: AbortSignal) -> str:
    """Standard input to its end, as UTF-8. Raises `HeadlessError`, or the signal's reason.

    Waits on the descriptor instead of reading in a thread, because a thread that is blocked on a
    pipe nobody closes would keep the process alive. The descriptor stays blocking: it is shared
    with whoever started this process.
    """
    if sys.stdin is None or sys.stdin.closed:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
        raise HeadlessError("stdin is closed; give the task as words", code="INVALID_TASK")
    try:
        task = await _read_all(sys.stdin.fileno(), signal)
    except OSError as error:
        raise HeadlessError(
            f"stdin cannot be read: {error.strerror or error}", code="INVALID_TASK"
        ) from None
    try:
        return task.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise HeadlessError(
            f"the task on stdin is not UTF-8 text (byte {error.start})", code="INVALID_TASK"
        ) from None


async def _read_all(descriptor: int, signal: AbortSignal) -> bytes:
    task = bytearray()
    while True:
        await _readable(descriptor, signal)
        try:
            chunk = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:  # someone who shares it made it non-blocking and read first
            continue
        if not chunk:
            return bytes(task)
        task += chunk
        if len(task) > MAX_TASK_BYTES:
            raise HeadlessError(
                f"the task on stdin is longer than {MAX_TASK_BYTES} bytes", code="INVALID_TASK"
            )


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
