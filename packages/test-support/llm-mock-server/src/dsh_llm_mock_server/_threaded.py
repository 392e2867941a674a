"""The mock server for blocking code: its event loop runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ._records import MockServerError
from ._server import WAIT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from ._records import Outcome, Refusal, Request
    from ._server import MockServer

T = TypeVar("T")


class ThreadedMockServer:
    """A MockServer in a thread; made by `MockServer.threaded`, a context manager."""

    def __init__(self, make: Callable[[], MockServer]) -> None:
        self._make = make
        self._thread: threading.Thread | None = None
        self._ready: Future[tuple[MockServer, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    def start(self) -> None:
        """Starts the thread and waits until it listens. Raises OSError if it cannot."""
        if self._thread is not None:
            raise MockServerError("the server has started already", code="MOCK_ALREADY_STARTED")
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="dsh-llm-mock-server", daemon=True
        )
        self._thread.start()
        self._ready.result()

    def close(self) -> None:
        """Stops the server and joins its thread. Safe to repeat."""
        if self._thread is None or not self._thread.is_alive():
            return
        _server, loop, stop = self._ready.result()
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        server, _loop, _stop = self._started()
        self.close()
        if error is None:
            server.raise_failure()

    @property
    def port(self) -> int:
        """The bound port."""
        return self._started()[0].port

    @property
    def base_url(self) -> str:
        """What a client takes as base URL; it appends `/chat/completions`."""
        return self._started()[0].base_url

    @property
    def requests(self) -> list[Request]:
        """Accepted requests, oldest first; grows in the server's thread."""
        return self._started()[0].requests

    @property
    def refusals(self) -> list[Refusal]:
        """Requests answered with 400, 401, 404 or 405, oldest first."""
        return self._started()[0].refusals

    def wait_for_request(self, n: int = 1, *, timeout_s: float = WAIT_TIMEOUT_S) -> Request:
        """Blocks until the n-th accepted request. Raises MockServerError as the server does."""
        server = self._started()[0]
        return self._run(server.wait_for_request(n, timeout_s=timeout_s))

    def wait_for_outcome(self, n: int = 1, *, timeout_s: float = WAIT_TIMEOUT_S) -> Outcome:
        """Blocks until the n-th reply has ended. Raises MockServerError as the server does."""
        server = self._started()[0]
        return self._run(server.wait_for_outcome(n, timeout_s=timeout_s))

    def _started(self) -> tuple[MockServer, asyncio.AbstractEventLoop, asyncio.Event]:
        if self._thread is None:
            raise MockServerError("the server has not started: use `with`", code="MOCK_NOT_STARTED")
        return self._ready.result()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        _server, loop, _stop = self._started()
        if loop.is_closed():
            return asyncio.run(work)  # answers from what is recorded, or that the server is closed
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def _main(self) -> None:
        server = self._make()
        try:
            await server.start()
        except BaseException as error:  # noqa: BLE001 - the caller of `start` gets it
            self._ready.set_exception(error)
            return
        stop = asyncio.Event()
        self._ready.set_result((server, asyncio.get_running_loop(), stop))
        await stop.wait()
        await server.aclose()
