"""HTTP/1.1 as far as a model client needs it: requests in, streamed replies out."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from ._reply import End, Head, Wait, Whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._frames import Action
    from ._records import Outcome

HEAD_LIMIT_BYTES: Final = 1 << 20
_FLUSH_BYTES: Final = 1 << 16
_STREAM_HEADERS: Final = {"content-type": "text/event-stream", "cache-control": "no-cache"}
_LINGER: Final = "hh" if sys.platform == "win32" else "ii"


class BadRequestError(Exception):
    """Bytes that are no HTTP/1.1 request; the connection cannot go on."""


class Wire(asyncio.StreamReaderProtocol):
    """The stream protocol, which also tells when the client leaves while nobody reads.

    It stands in `wires` for as long as its socket is open.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        *,
        loop: asyncio.AbstractEventLoop,
        wires: set[Wire],
    ) -> None:
        super().__init__(reader, connected, loop=loop)
        self.gone = asyncio.Event()
        """Set once the client has closed its side."""
        self.lost = asyncio.Event()
        """Set once the socket is closed."""
        self._wires = wires
        self._socket: asyncio.BaseTransport | None = None

    def abort(self) -> None:
        """Closes the socket without sending what is still buffered."""
        if isinstance(self._socket, asyncio.WriteTransport):
            self._socket.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Joins the open wires and starts the task that serves the connection."""
        self._socket = transport
        self._wires.add(self)
        super().connection_made(transport)

    def eof_received(self) -> bool | None:
        """The client has closed its side."""
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        super().connection_lost(exc)
        self.gone.set()
        self.lost.set()
        self._wires.discard(self)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; header names are in lower case, the path has no query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def keep_alive(self) -> bool:
        """Whether the client wants to send another request on this connection."""
        return self.headers.get("connection", "").lower() != "close"


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> HttpRequest | None:
    """The next request, None once the client has closed. Raises BadRequestError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadRequestError(f"request head exceeds {HEAD_LIMIT_BYTES} bytes") from error
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise BadRequestError("connection closed within the request head") from error
        return None
    line, *rest = head.decode("latin-1").strip().split("\r\n")
    match line.split(" "):
        case [method, target, "HTTP/1.1"]:
            pass
        case _:
            raise BadRequestError(f"{line!r} is not an HTTP/1.1 request line")
    headers: dict[str, str] = {}
    for entry in rest:
        name, colon, value = entry.partition(":")
        if not colon:
            raise BadRequestError(f"{entry!r} is not a header")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        body = await _read_body(reader, headers)
    except ValueError as error:
        raise BadRequestError(f"bad body length: {error}") from error
    return HttpRequest(method, target.partition("?")[0], headers, body)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    parts: list[bytes] = []
    while size := int((await reader.readline()).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass
    return b"".join(parts)


class ResponseWriter:
    """Sends one reply; frames between two waits go out together."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        wire: Wire,
        *,
        request_id: str,
        split_bytes: int | None = None,
    ) -> None:
        self._writer = writer
        self._wire = wire
        self._request_id = request_id
        self._split_bytes = split_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._streaming = False

    async def play(self, actions: Iterable[Action]) -> Outcome:
        """Carries the actions out. Returns how the reply ended."""
        try:
            return await self._play(actions)
        except ConnectionError:
            return "client_closed"

    async def _play(self, actions: Iterable[Action]) -> Outcome:
        for action in actions:
            match action:
                case bytes():
                    self._pending.append(action)
                    self._pending_bytes += len(action)
                    if self._pending_bytes >= _FLUSH_BYTES:
                        await self._flush()
                case Wait(seconds):
                    await self._flush()
                    if await self._client_left(seconds):
                        return "client_closed"
                case Head(code, headers):
                    self._open(code, headers)
                case Whole():
                    await self._whole(action)
                    return "completed"
                case End(kind):
                    return await self._end(kind)
        return await self._end("eof")

    async def _end(self, kind: Literal["cut", "reset", "eof"]) -> Outcome:
        if kind == "eof":
            await self._flush(last=b"0\r\n\r\n")
            return "completed"
        await self._flush()
        if kind == "reset":
            self._reset()
        return kind

    async def _whole(self, whole: Whole) -> None:
        length = {"content-length": str(len(whole.body))}
        self._writer.write(self._head(whole.code, {**length, **whole.headers}) + whole.body)
        await self._writer.drain()

    def _open(self, code: int, headers: Mapping[str, str]) -> None:
        chunked = {"transfer-encoding": "chunked"}
        self._writer.write(self._head(code, {**_STREAM_HEADERS, **headers, **chunked}))
        self._streaming = True

    async def _flush(self, last: bytes = b"") -> None:
        frames = self._pending
        self._pending = []
        self._pending_bytes = 0
        if (frames or last) and not self._streaming:
            self._open(HTTPStatus.OK, {})
        if self._split_bytes is not None:
            await self._write_split(b"".join(frames), self._split_bytes)
        else:
            # One HTTP chunk for each frame, as providers send them, in one write for all of them.
            self._writer.write(b"".join(_http_chunk(frame) for frame in frames))
        if last:
            self._writer.write(last)
        await self._writer.drain()

    async def _write_split(self, data: bytes, size: int) -> None:
        for start in range(0, len(data), size):
            self._writer.write(_http_chunk(data[start : start + size]))
            await self._writer.drain()

    async def _client_left(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._wire.gone.wait()
        except TimeoutError:
            return False
        return True

    def _reset(self) -> None:
        raw = self._writer.get_extra_info("socket")
        # A close with zero linger drops the connection with RST instead of FIN.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(_LINGER, 1, 0))
        self._writer.transport.abort()

    def _head(self, code: int, headers: Mapping[str, str]) -> bytes:
        reason = HTTPStatus(code).phrase if code in _CODES else "Unknown"
        fields = {"x-request-id": self._request_id, **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {code} {reason}\r\n{lines}\r\n".encode("latin-1")


_CODES: Final = frozenset(int(status) for status in HTTPStatus)


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
