"""One attempt at one request, as the iterator of its chunks."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from dsh_llm import LlmError, StreamChunk, error_chain
from dsh_timeout import IdleWatchdog, deadline, timeout_of

from ._failures import MAX_BODY_BYTES, body_error, http_error, redacted
from ._sse import DONE, SseParser
from ._transport import import_httpx
from ._wire import decode_chunk

if TYPE_CHECKING:
    import httpx
    from anyio import CancelScope
    from dsh_cordis import AbortSignal

    from ._config import Profile
    from ._translate import Translator
    from ._transport import Exchange, Transport

_IDLE: Final = "LLM_STREAM_IDLE"
_TOTAL: Final = "LLM_STREAM_TOTAL"
_EXPLANATION_SECONDS: Final = 2.0
"""How long the body of a refusal is waited for."""
_DRAIN_SECONDS: Final = 0.25
"""How long the end of a complete answer is waited for, to keep its connection."""


class ResponseStream(AsyncIterator[StreamChunk]):
    """Chunks of one answer. Failures are raised as `LlmError` after the chunks before them.

    All complete events of one network read are handled in one plain loop; between them nothing is
    awaited. Close it when leaving early.
    """

    def __init__(
        self,
        transport: Transport,
        profile: Profile,
        *,
        prepare: Callable[[], tuple[bytes, str, Translator]],
        signal: AbortSignal | None,
    ) -> None:
        """`prepare` gives body, key and translator when the first chunk is asked for."""
        self._transport = transport
        self._profile = profile
        self._prepare = prepare
        self._upstream = signal
        self._parser = SseParser()
        self._ready: Any = iter(())
        self._failure: LlmError | None = None
        self._done = False
        self._key = ""
        self._owned = ExitStack()
        self._watchdog: IdleWatchdog | None = None
        self._translator: Translator | None = None
        self._exchange: Exchange | None = None
        self._body: AsyncIterator[bytes] | None = None

    async def __anext__(self) -> StreamChunk:
        while True:
            chunk = next(self._ready, None)
            if chunk is not None:
                return chunk
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._done:
                await self.aclose()
                raise StopAsyncIteration
            self._ready = iter(await self._fill())

    async def aclose(self) -> None:
        """Release connection, timers and signal. A complete answer leaves its connection open."""
        complete, self._done = self._done and self._failure is None, True
        self._failure = None
        self._ready = iter(())
        try:
            await self._release(complete=complete)
        finally:
            self._owned.close()

    async def _fill(self) -> list[StreamChunk]:
        """The chunks of the next read that holds any; failures are kept for after them."""
        out: list[StreamChunk] = []
        try:
            if self._body is None:
                await self._open()
            while not out and not self._done:
                self._take(await self._read(), out)
        except LlmError as error:
            self._failure = redacted(error, self._key)
        except (import_httpx().HTTPError, import_httpx().StreamError) as error:
            # The client repeats in its error what it could not read.
            self._failure = redacted(self._transport_error(error), self._key)
        if self._failure is not None:
            failure = self._failure
            await self.aclose()
            self._failure = failure
        return out

    async def _read(self) -> bytes | None:
        """The next bytes of the body, None at its end."""
        watchdog, body = self._watchdog, self._body
        if watchdog is None or body is None or watchdog.signal.aborted:
            raise self._broken_off()
        data = await watchdog.next(anext(body, None))
        if data is None and watchdog.signal.aborted:
            raise self._broken_off()
        return data

    def _take(self, data: bytes | None, out: list[StreamChunk]) -> None:
        """Translate what one read brought."""
        translator = self._translator
        if data is None or translator is None:
            raise self._ended()
        for payload in self._parser.feed(data):
            if payload == DONE:
                self._done = True
                translator.finish(out)
                return
            translator.push(decode_chunk(payload), out)

    async def _open(self) -> None:
        if self._upstream is not None and self._upstream.aborted:
            raise _stopped()
        body, self._key, self._translator = self._prepare()
        import_httpx()
        enter = self._owned.enter_context
        bounded = enter(deadline(self._upstream, self._profile.total_timeout_ms, _TOTAL))
        watchdog = self._watchdog = enter(
            IdleWatchdog(bounded, self._profile.idle_timeout_ms, _IDLE)
        )
        self._exchange = await self._head(body, watchdog)
        response = self._exchange.response
        self._owned.callback(watchdog.signal.on_abort(lambda: _break(response)))
        # Asked for identity, a server may compress all the same. Else the stream is read without
        # httpx's own layers, which cost more than all the parsing here.
        plain = "content-encoding" not in response.headers
        stream = cast("AsyncIterable[bytes]", response.stream)
        self._body = aiter(stream if plain else response.aiter_bytes())
        await self._check(response)

    async def _head(self, body: bytes, watchdog: IdleWatchdog) -> Exchange:
        """Send the request; what the signal says breaks it off."""
        import anyio

        with anyio.CancelScope() as scope:
            remove = watchdog.signal.on_abort(scope.cancel)
            try:
                return await watchdog.next(self._transport.open(body, self._key))
            finally:
                remove()
        raise self._broken_off()

    async def _check(self, response: httpx.Response) -> None:
        """Raise what a response that is no event stream says."""
        status, headers = response.status_code, response.headers
        kind = headers.get("content-type", "").lower()
        if status == 200 and "json" not in kind and "html" not in kind:
            return
        read = bytearray()
        # The status has said what matters; a body that breaks off or drips only says less.
        with suppress(import_httpx().HTTPError), _at_most(_EXPLANATION_SECONDS):
            while len(read) < MAX_BODY_BYTES and (data := await self._read()) is not None:
                read += data
        if self._watchdog is not None and self._watchdog.signal.aborted:
            raise self._broken_off()
        if status == 200:
            raise body_error(bytes(read))
        raise http_error(status, headers, bytes(read), api_key_env=self._profile.api_key_env)

    def _broken_off(self) -> LlmError:
        watchdog = self._watchdog
        for code, what in ((_IDLE, "sent nothing for"), (_TOTAL, "was not done after")):
            reason = timeout_of(watchdog.signal, code) if watchdog is not None else None
            if reason is not None:
                seconds = reason.timeout_ms / 1000
                return LlmError(f"{self._profile.host} {what} {seconds:g} s", code="TIMEOUT")
        return _stopped()

    def _ended(self) -> LlmError:
        if self._parser.seen_bytes == 0:
            return LlmError("the provider sent an empty response", code="EMPTY_RESPONSE")
        return LlmError("the answer broke off before its end", code="STREAM_CLOSED")

    def _transport_error(self, error: Exception) -> LlmError:
        if self._watchdog is not None and self._watchdog.signal.aborted:
            return self._broken_off()
        httpx = import_httpx()
        host = self._profile.host
        if isinstance(error, httpx.ConnectTimeout):
            seconds = self._profile.connect_timeout_ms / 1000
            return LlmError(f"cannot reach {host} within {seconds:g} s", code="TRANSPORT")
        if isinstance(error, httpx.ConnectError | httpx.ProxyError):
            return LlmError(f"cannot reach {host}: {error_chain(error)}", code="TRANSPORT")
        return LlmError(f"the connection to {host} broke: {error_chain(error)}", code="TRANSPORT")

    async def _release(self, *, complete: bool) -> None:
        body, self._body = self._body, None
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        try:
            if body is not None and complete:
                await _drain(body)
            if body is not None:
                await body.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - httpx's generators
        finally:
            await exchange.dispose()


def _break(response: httpx.Response) -> None:
    """Shut the connection of `response` down, which ends a pending read at once.

    Cheaper than a cancel scope around each of thousands of reads. The descriptor is duplicated
    since not every event loop lets a transport's socket be shut down.
    """
    stream = response.extensions["network_stream"]
    connection = stream.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return
    twin = socket.fromfd(connection.fileno(), connection.family, connection.type)
    # It fails only where the other side has ended the connection already.
    with twin, suppress(OSError):
        twin.shutdown(socket.SHUT_RDWR)


def _at_most(seconds: float) -> CancelScope:
    import anyio

    return anyio.move_on_after(seconds)


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read the end of a complete answer, usually there already; a closed connection costs more."""
    httpx = import_httpx()
    with _at_most(_DRAIN_SECONDS):
        try:
            while await anext(body, None) is not None:
                pass
        except httpx.HTTPError:
            # The answer is complete; only its connection is lost.
            return


def _stopped() -> LlmError:
    return LlmError("the request was stopped", code="ABORTED")
