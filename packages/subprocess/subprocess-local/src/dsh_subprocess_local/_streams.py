"""The parent's ends of a child's pipes, driven by the event loop without a task each."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import IO, Final

from ._collector import TailCollector

_READ_BYTES: Final = 64 * 1024
"""What a pipe holds: more would be allocated for nothing."""
_DISCARD_PAUSE_S: Final = 0.02
"""Between two reads of output that nobody wants any more, so that it cannot keep the loop busy."""


class Drain:
    """Reads a pipe into a collector; pauses while a file write is under way.

    After `settle` what still comes is read and dropped: a process in the background that writes to
    a closed pipe would die of it, and one that writes to a full pipe would stand still.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], collector: TailCollector
    ) -> None:
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._pipe = pipe
        self._descriptor = pipe.fileno()
        self._collector = collector
        self._spilling: asyncio.Future[None] | None = None
        self._settled = False
        os.set_blocking(self._descriptor, False)
        loop.add_reader(self._descriptor, self._on_readable)

    def stop(self) -> None:
        """Stop reading, whether or not the pipe ended."""
        if self.ended.done():
            return
        self._loop.remove_reader(self._descriptor)
        with contextlib.suppress(OSError):
            self._pipe.close()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.ended.set_result(None)

    async def settle(self) -> None:
        """Take no more into the collector and finish the file."""
        self._settled = True
        if self._spilling is not None:
            await asyncio.wait([self._spilling])
        if self._collector.end():
            await self._loop.run_in_executor(None, self._collector.finish)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.stop()
        elif self._settled:
            self._loop.remove_reader(self._descriptor)
            self._loop.call_later(_DISCARD_PAUSE_S, self._resume)
        elif self._collector.push(data):
            self._loop.remove_reader(self._descriptor)
            self._spilling = self._loop.run_in_executor(None, self._collector.spill)
            self._spilling.add_done_callback(self._spilled)

    def _spilled(self, _done: asyncio.Future[None]) -> None:
        self._spilling = None
        self._resume()

    def _resume(self) -> None:
        if not self.ended.done():
            self._loop.add_reader(self._descriptor, self._on_readable)


class Feed:
    """Writes given bytes to a child's stdin and closes it. A child that does not read, or ends
    first, is no error."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: IO[bytes], data: bytes) -> None:
        self._loop = loop
        self._pipe = pipe
        self._left = memoryview(data)
        os.set_blocking(pipe.fileno(), False)
        loop.add_writer(pipe.fileno(), self._on_writable)

    def stop(self) -> None:
        """Stop writing and close."""
        if self._pipe.closed:
            return
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
            self.stop()


class RawStreams:
    """The streams that a caller reads and writes itself, connected when it asks for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipes: dict[str, IO[bytes]]) -> None:
        self._loop = loop
        self._unopened = pipes
        self._transports: list[asyncio.ReadTransport | asyncio.WriteTransport] = []
        self._lost = {name: loop.create_future() for name in pipes}
        self.lost = tuple(self._lost.values())
        """Done once the stream was read to its end or closed."""

    async def reader(self, name: str) -> asyncio.StreamReader | None:
        """A reader over an output pipe; None if there is no such pipe, or no more."""
        pipe = self._unopened.pop(name, None)
        if pipe is None:
            return None
        reader = asyncio.StreamReader()
        protocol = _Notifying(reader, self._lost[name])
        transport, _ = await self._loop.connect_read_pipe(lambda: protocol, pipe)
        self._transports.append(transport)
        return reader

    async def writer(self, name: str) -> asyncio.StreamWriter | None:
        """A writer over an input pipe; None if there is no such pipe, or no more."""
        pipe = self._unopened.pop(name, None)
        if pipe is None:
            return None
        protocol = _Notifying(asyncio.StreamReader(), self._lost[name])
        transport, _ = await self._loop.connect_write_pipe(lambda: protocol, pipe)
        self._transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, self._loop)

    def stop(self) -> None:
        """Close what is still open; unread output is lost."""
        for pipe in self._unopened.values():
            with contextlib.suppress(OSError):
                pipe.close()
        self._unopened.clear()
        for transport in self._transports:
            if not isinstance(transport, asyncio.WriteTransport):
                transport.close()
            elif not transport.is_closing() or transport.get_write_buffer_size():
                # A writer that was closed waits for its buffer, and nobody may ever read that; one
                # that is on its way out already cannot be aborted again.
                transport.abort()


class _Notifying(asyncio.StreamReaderProtocol):
    """Tells when its pipe is closed on this side."""

    def __init__(self, reader: asyncio.StreamReader, lost: asyncio.Future[None]) -> None:
        super().__init__(reader)
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._lost.done():
            self._lost.set_result(None)
