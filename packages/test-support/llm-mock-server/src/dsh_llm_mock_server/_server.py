"""The server: which requests it accepts, which reply each one gets."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ._frames import FrameEncoder
from ._http import (
    HEAD_LIMIT_BYTES,
    BadRequestError,
    HttpRequest,
    ResponseWriter,
    Wire,
    read_request,
)
from ._records import (
    MockServerError,
    Outcome,
    Refusal,
    Request,
    Responder,
    Script,
)
from ._reply import Reply, error_object
from ._strict import decode_lenient, decode_strict, first_problem

if TYPE_CHECKING:
    from types import TracebackType

    from ._threaded import ThreadedMockServer

_log: Final = logging.getLogger("dsh.llm-mock-server")
_ROUTE: Final = "/chat/completions"
WAIT_TIMEOUT_S: Final = 10.0

Observer = Callable[[Request | Refusal], None]


class MockServer:
    """A chat-completions server that plays a script; an async context manager.

    `replies` are taken in order, one for each accepted request (then 500 MOCK_SCRIPT_EXHAUSTED),
    or are one function from request to reply. An entry in the list may be such a function too.
    With `strict`, requests that a real server would not take are answered with 400 and use up no
    reply. `require_key` answers 401 to any other bearer token. `on_record` sees every request and
    refusal as it is recorded. Leaving the context raises the first error of a reply function,
    unless another exception is under way.
    """

    def __init__(
        self,
        replies: Script,
        *,
        strict: bool = True,
        require_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        on_record: Observer | None = None,
    ) -> None:
        self.requests: list[Request] = []
        """Accepted requests, oldest first."""
        self.refusals: list[Refusal] = []
        """Requests answered with 400, 401, 404 or 405, oldest first."""
        self._responder = replies if callable(replies) else None
        self._replies: Iterator[Reply | Responder] = (
            iter(()) if callable(replies) else iter(replies)
        )
        self._strict = strict
        self._require_key = require_key
        self._host = host
        self._port = port
        self._on_record = on_record
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._wires: set[Wire] = set()
        self._changed = asyncio.Event()
        self._closed = False
        self._failure: Exception | None = None

    @classmethod
    def threaded(
        cls,
        replies: Script,
        *,
        strict: bool = True,
        require_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        on_record: Observer | None = None,
    ) -> ThreadedMockServer:
        """The same server in a thread of its own: a plain context manager for blocking code.

        Reply functions and `on_record` are called in that thread.
        """
        from ._threaded import ThreadedMockServer

        def make() -> MockServer:
            return cls(
                replies,
                strict=strict,
                require_key=require_key,
                host=host,
                port=port,
                on_record=on_record,
            )

        return ThreadedMockServer(make)

    @property
    def port(self) -> int:
        """The bound port. Raises MockServerError before the server has started."""
        if self._server is None:
            raise MockServerError(
                "the server has not started: use `async with`", code="MOCK_NOT_STARTED"
            )
        return self._port

    @property
    def base_url(self) -> str:
        """What a client takes as base URL; it appends `/chat/completions`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Binds and listens. Raises OSError if the address cannot be had."""
        if self._server is not None:
            raise MockServerError("the server has started already", code="MOCK_ALREADY_STARTED")
        loop = asyncio.get_running_loop()

        def connect() -> Wire:
            reader = asyncio.StreamReader(limit=HEAD_LIMIT_BYTES, loop=loop)
            return Wire(reader, self._serve, loop=loop, wires=self._wires)

        self._server = await loop.create_server(connect, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stops listening and drops every connection, stalled ones too. Safe to repeat."""
        self._closed = True
        self._notify()
        await asyncio.sleep(0)  # whoever waits for a request learns of the end
        if self._server is not None:
            self._server.close()
        wires = tuple(self._wires)
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        for wire in wires:
            wire.abort()
        if tasks:
            await asyncio.wait(tasks)
        for wire in wires:
            await wire.lost.wait()

    def raise_failure(self) -> None:
        """Raises the first error of a reply function, if there was one."""
        if self._failure is not None:
            raise self._failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
        if error is None:
            self.raise_failure()

    async def wait_for_request(self, n: int = 1, *, timeout_s: float = WAIT_TIMEOUT_S) -> Request:
        """The n-th accepted request, counted from 1, as soon as it is there.

        Raises MockServerError after `timeout_s` seconds, or once the server is closed.
        """
        await self._wait(lambda: len(self.requests) >= n, f"request {n}", timeout_s)
        return self.requests[n - 1]

    async def wait_for_outcome(self, n: int = 1, *, timeout_s: float = WAIT_TIMEOUT_S) -> Outcome:
        """How the reply to the n-th accepted request ended, as soon as it has.

        Raises MockServerError after `timeout_s` seconds, or once the server is closed.
        """

        def ended() -> bool:
            return len(self.requests) >= n and self.requests[n - 1].outcome is not None

        await self._wait(ended, f"the end of reply {n}", timeout_s)
        return cast("Outcome", self.requests[n - 1].outcome)

    async def _wait(self, reached: Callable[[], bool], what: str, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not reached():
                    if self._closed:
                        raise MockServerError(
                            f"waited for {what}: the server is closed", code="MOCK_CLOSED"
                        )
                    await self._changed.wait()
        except TimeoutError:
            refused = "".join(f"; refused: {refusal.message}" for refusal in self.refusals)
            raise MockServerError(
                f"waited {timeout_s} s for {what}: {len(self.requests)} accepted{refused}",
                code="MOCK_WAIT_TIMEOUT",
            ) from None

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio starts this task for each connection; `aclose` ends it.
        task = cast("asyncio.Task[None]", asyncio.current_task())
        wire = cast("Wire", writer.transport.get_protocol())
        self._tasks.add(task)
        try:
            while not self._closed and await self._exchange(reader, writer, wire):
                pass
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            _log.debug("client left: %r", error)
        except asyncio.CancelledError:
            # Ends here if it is `aclose` that cancels: asyncio before 3.12 logs a stream task that
            # ends cancelled as an error in its callback.
            if not self._closed:
                raise
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire
    ) -> bool:
        """One request and its reply. Returns whether the connection goes on."""
        try:
            http = await read_request(reader, writer)
        except BadRequestError as error:
            answer = self._refuse(400, str(error), HttpRequest("", "", {}, b""))
            await self._respond(answer, writer, wire)
            return False
        if http is None:
            return False
        accepted = self._accept(http)
        if isinstance(accepted, Reply):
            outcome = await self._respond(accepted, writer, wire)
            return outcome == "completed" and http.keep_alive
        try:
            reply = await self._next_reply(accepted)
            accepted.outcome = await self._respond(reply, writer, wire, accepted)
        finally:
            if accepted.outcome is None:
                accepted.outcome = "server_closed"
            self._notify()
        return accepted.outcome == "completed" and http.keep_alive

    def _accept(self, http: HttpRequest) -> Request | Reply:
        """The recorded request, or the reply that refuses it."""
        if not http.path.endswith(_ROUTE):
            return self._refuse(404, f"no such path: {http.path}", http)
        if http.method != "POST":
            return self._refuse(405, f"{http.method} is not allowed, use POST", http)
        key = self._require_key
        if key is not None and http.headers.get("authorization") != f"Bearer {key}":
            return self._refuse(401, "Authentication fails, the api key is invalid", http)
        try:
            body = decode_strict(http.body) if self._strict else decode_lenient(http.body)
        except ValueError as error:
            return self._refuse(400, f"request body: {error}", http)
        if not isinstance(body, dict):
            return self._refuse(400, "request body: must be a JSON object", http)
        fields = cast("dict[str, Any]", body)
        if self._strict and (problem := first_problem(fields)):
            return self._refuse(400, problem, http)
        request = Request(len(self.requests) + 1, http.path, http.headers, fields, time.time())
        self.requests.append(request)
        self._record(request)
        return request

    def _refuse(self, status: int, message: str, http: HttpRequest) -> Reply:
        refusal = Refusal(status, message, http.path, http.body, time.time())
        self.refusals.append(refusal)
        self._record(refusal)
        return Reply.status(status, body=error_object(status, message))

    def _record(self, record: Request | Refusal) -> None:
        if self._on_record is not None:
            try:
                self._on_record(record)
            except Exception:  # noqa: BLE001 - an observer must not change what the client gets
                _log.warning("on_record failed", exc_info=True)
        self._notify()

    async def _next_reply(self, request: Request) -> Reply:
        try:
            entry = self._responder or next(self._replies, None)
            if entry is None:
                message = f"the script has no reply for request {request.number}"
                body = error_object(500, message, error_code="MOCK_SCRIPT_EXHAUSTED")
                return Reply.status(500, body=body)
            if isinstance(entry, Reply):
                return entry
            made = entry(request)
            return await made if inspect.isawaitable(made) else made
        except Exception as error:  # noqa: BLE001 - a script's error goes to its test, not a crash
            _log.warning("the script failed on request %d", request.number, exc_info=True)
            self._failure = self._failure or error
            message = f"the script failed on request {request.number}: {error!r}"
            body = error_object(500, message, error_code="MOCK_SCRIPT_FAILED")
            return Reply.status(500, body=body)

    async def _respond(
        self,
        reply: Reply,
        writer: asyncio.StreamWriter,
        wire: Wire,
        request: Request | None = None,
    ) -> Outcome:
        number = request.number if request else 0
        model = str(request.body.get("model", "mock")) if request else "mock"
        encoder = FrameEncoder(number, model=model, created=int(time.time()))
        response = ResponseWriter(
            writer, wire, request_id=f"mock-{number}", split_bytes=reply.split_bytes
        )
        return await response.play(encoder.actions(reply))
