"""The parent's ends of a child's pipes, driven by the event loop without a task each."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import IO, Final

from ._collector import TailCollector

_READ_BYTES: Final = 256 * 1024


class Drain:
    """Reads a pipe into a collector until it ends; pauses while a file write is under way."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], collector: TailCollector
    ) -> None:
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._pipe = pipe
        self._descriptor = pipe.fileno()
        self._collector = collector
        self._spilling: asyncio.Future[None] | None = None
        os.set_blocking(self._descriptor, False)
        loop.add_reader(self._descriptor, self._on_readable)

    async def close(self) -> None:
        """Stop reading, whether or not the pipe ended, and finish the file."""
        if not self.ended.done():
            self._end()
        if self._spilling is not None:
            await asyncio.wait([self._spilling])
        if self._collector.has_file:
            await self._loop.run_in_executor(None, self._collector.finish)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
        elif self._collector.push(data):
            self._loop.remove_reader(self._descriptor)
            self._spilling = self._loop.run_in_executor(None, self._collector.spill)
            self._spilling.add_done_callback(self._resume)

    def _resume(self, _spilled: asyncio.Future[None]) -> None:
        self._spilling = None
        if not self.ended.done():
            self._loop.add_reader(self._descriptor, self._on_readable)

    def _end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        with contextlib.suppress(OSError):
            self._pipe.close()
        self.ended.set_result(None)


class Feed:
    """Writes given bytes to a child's stdin and closes it. A child that does not read, or ends
    first, is no error."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], data: bytes) -> None:
        self._loop = loop
        self._pipe = pipe
        self._left = memoryview(data)
        self._open = True
        os.set_blocking(pipe.fileno(), False)
        loop.add_writer(pipe.fileno(), self._on_writable)

    def close(self) -> None:
        """Stop writing."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_writer(self._pipe.fileno())
        with contextlib.suppress(OSError):
            self._pipe.close()

    def _on_writable(self) -> None:
        try:
            if self._left:
                self._left = self._left[os.write(self._pipe.fileno(), self._left) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._left = memoryview(b"")
        if not self._left:
            self.close()


async def open_reader(pipe: IO[bytes]) -> asyncio.StreamReader:
    """A reader over the parent's end of an output pipe, which it then owns."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader


async def open_writer(pipe: IO[bytes]) -> asyncio.StreamWriter:
    """A writer over the parent's end of an input pipe, which it then owns."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
