"""One attempt at one request, as the iterator of its chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from dsh_llm import LlmError, StreamChunk, error_chain
from dsh_timeout import IdleWatchdog, deadline, timeout_of

from ._failures import MAX_BODY_BYTES, body_error, http_error, redacted
from ._sse import DONE, SseParser
from ._transport import import_httpx
from ._wire import decode_chunk

if TYPE_CHECKING:
    import anyio
    import httpx
    from dsh_cordis import AbortSignal

    from ._config import Profile
    from ._translate import Translator
    from ._transport import Transport

_IDLE: Final = "LLM_STREAM_IDLE"
_TOTAL: Final = "LLM_STREAM_TOTAL"
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
        self._signal: AbortSignal | None = None
        self._watchdog: IdleWatchdog | None = None
        self._translator: Translator | None = None
        self._response: httpx.Response | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._scope: anyio.CancelScope | None = None

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
            self._fail(error)
        except import_httpx().HTTPError as error:
            self._fail(self._transport_error(error))
        except import_httpx().StreamError as error:
            # The client was closed under the stream: its plugin is gone.
            self._fail(LlmError(f"the connection was closed: {error}", code="TRANSPORT"))
        if self._failure is not None:
            failure = self._failure
            await self.aclose()
            self._failure = failure
        return out

    def _take(self, data: bytes | None, out: list[StreamChunk]) -> None:
        """Translate what one read brought; `data` of None is the end of the body."""
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
        watchdog = enter(IdleWatchdog(bounded, self._profile.idle_timeout_ms, _IDLE))
        self._watchdog, self._signal = watchdog, watchdog.signal
        self._owned.callback(self._signal.on_abort(self._interrupt))
        response = await self._wait(self._transport.open(body, self._key))
        self._response = response
        # Asked for identity, a server may compress all the same.
        plain = "content-encoding" not in response.headers
        self._body = response.aiter_raw() if plain else response.aiter_bytes()
        await self._check(response)

    async def _check(self, response: httpx.Response) -> None:
        """Raise what a response that is no event stream says."""
        status, headers = response.status_code, response.headers
        kind = headers.get("content-type", "").lower()
        if status == 200 and "json" not in kind and "html" not in kind:
            return
        read = bytearray()
        while len(read) < MAX_BODY_BYTES and (data := await self._read()) is not None:
            read += data
        if status == 200:
            raise body_error(bytes(read))
        raise http_error(status, headers, bytes(read), api_key_env=self._profile.api_key_env)

    async def _read(self) -> bytes | None:
        body = self._body
        return await self._wait(_next_bytes(body)) if body is not None else None

    async def _wait(self, awaitable: Any) -> Any:  # noqa: ANN401 - gives what the awaitable gives
        """Await something of the network; a signal or the watchdog breaks it off."""
        import anyio

        watchdog, signal = self._watchdog, self._signal
        if watchdog is None or signal is None or signal.aborted:
            awaitable.close()
            raise self._broken_off()
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                return await watchdog.next(awaitable)
            finally:
                self._scope = None
        raise self._broken_off()

    def _interrupt(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _broken_off(self) -> LlmError:
        signal = self._signal
        for code, what in ((_IDLE, "sent nothing for"), (_TOTAL, "was not done after")):
            reason = timeout_of(signal, code) if signal is not None else None
            if reason is not None:
                seconds = reason.timeout_ms / 1000
                return LlmError(f"{self._profile.host} {what} {seconds:g} s", code="TIMEOUT")
        return _stopped()

    def _ended(self) -> LlmError:
        if self._parser.seen_bytes == 0:
            return LlmError("the provider sent an empty response", code="EMPTY_RESPONSE")
        return LlmError("the answer broke off before its end", code="STREAM_CLOSED")

    def _transport_error(self, error: httpx.HTTPError) -> LlmError:
        httpx = import_httpx()
        host = self._profile.host
        if isinstance(error, httpx.ConnectTimeout):
            seconds = self._profile.connect_timeout_ms / 1000
            return LlmError(f"cannot reach {host} within {seconds:g} s", code="TRANSPORT")
        if isinstance(error, httpx.ConnectError | httpx.ProxyError):
            return LlmError(f"cannot reach {host}: {error_chain(error)}", code="TRANSPORT")
        return LlmError(f"the connection to {host} broke: {error_chain(error)}", code="TRANSPORT")

    def _fail(self, error: LlmError) -> None:
        self._failure = redacted(error, self._key)

    async def _release(self, *, complete: bool) -> None:
        body, self._body = self._body, None
        response, self._response = self._response, None
        if response is None:
            return
        if complete and body is not None:
            await _drain(body)
        if body is not None:
            await body.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - httpx's generators
        await response.aclose()


async def _next_bytes(body: AsyncIterator[bytes]) -> bytes | None:
    return await anext(body, None)


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read the end of a complete answer, usually there already; a closed connection costs more."""
    import anyio

    httpx = import_httpx()
    with anyio.move_on_after(_DRAIN_SECONDS):
        try:
            while await anext(body, None) is not None:
                pass
        except httpx.HTTPError:
            # The answer is complete; only its connection is lost.
            return


def _stopped() -> LlmError:
    return LlmError("the request was stopped", code="ABORTED")
