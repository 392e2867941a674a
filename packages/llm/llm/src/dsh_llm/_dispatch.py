"""Streams on their way from the adapter to the consumer, one hop each."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from ._chunks import Finish, StreamChunk
from ._messages import Message, ModelSource
from ._normalize import failure_of, terminal_chunk

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal

    from ._request import GenerateOptions, LlmCallConfig, Provider

_log = logging.getLogger("dsh.llm")


class DeferredStream(AsyncIterator[StreamChunk]):
    """An iterator that is made asynchronously, when the first chunk is asked for."""

    __slots__ = ("_closed", "_inner", "_open")

    def __init__(self, open_stream: Callable[[], Awaitable[AsyncIterator[StreamChunk]]]) -> None:
        self._open = open_stream
        self._inner: AsyncIterator[StreamChunk] | None = None
        self._closed = False

    def __anext__(self) -> Awaitable[StreamChunk]:
        # Not a coroutine of its own: once open, a chunk costs no extra frame here.
        inner = self._inner
        return self._first() if inner is None else inner.__anext__()

    async def _first(self) -> StreamChunk:
        if self._closed:
            raise StopAsyncIteration
        try:
            opened = await self._open()
        except StopAsyncIteration as error:
            # Let through, it would pass for the end of an answer.
            raise RuntimeError("a listener of 'llm/stream' raised StopAsyncIteration") from error
        self._inner = aiter(opened)
        return await anext(self._inner)

    async def aclose(self) -> None:
        """Close what was opened, if anything; nothing is opened afterwards."""
        self._closed = True
        await close_stream(self._inner)


class AdapterStream(AsyncIterator[StreamChunk]):
    """An adapter's chunks; whatever it raises becomes the last one.

    Only what the adapter raises: a consumer's or listener's error never passes through here.
    """

    __slots__ = ("_failed", "_inner", "_open", "_over", "_signal")

    def __init__(
        self, open_stream: Callable[[], AsyncIterator[StreamChunk]], signal: AbortSignal | None
    ) -> None:
        self._open = open_stream
        self._inner: AsyncIterator[StreamChunk] | None = None
        self._signal = signal
        self._over = False
        self._failed = False

    async def __anext__(self) -> StreamChunk:
        if self._over:
            return await self._after_finish()
        try:
            inner = self._inner
            if inner is None:
                if self._signal is not None:
                    self._signal.throw_if_aborted()
                inner = self._inner = aiter(self._open())
            chunk = await inner.__anext__()
        except StopAsyncIteration:
            self._over = True
            raise
        except Exception as error:  # noqa: BLE001 - containment: an adapter fails in band
            self._over = self._failed = True
            _log.debug("a model request failed", exc_info=error)
            return terminal_chunk(failure_of(error), self._signal)
        if type(chunk) is Finish:
            self._over = True
        return chunk

    async def _after_finish(self) -> StreamChunk:
        """Let the adapter end by itself, so that its connection can be used again."""
        inner, self._inner = self._inner, None
        if inner is not None and not self._failed:
            try:
                await anext(inner, None)
            except Exception:  # noqa: BLE001 - containment: the answer is complete already
                _log.warning("an adapter failed after its finish", exc_info=True)
        await close_stream(inner)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the adapter's iterator and wait for it; no chunk comes afterwards."""
        self._over = True
        inner, self._inner = self._inner, None
        await close_stream(inner)


async def close_stream(stream: AsyncIterator[Any] | None) -> None:
    """Close `stream` if it can be closed; raises what its cleanup raises."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await cast("Callable[[], Awaitable[None]]", close)()


async def single_chunk(chunk: StreamChunk) -> AsyncIterator[StreamChunk]:
    """A stream of just `chunk`."""
    yield chunk


def replace_config(options: GenerateOptions, config: LlmCallConfig) -> GenerateOptions:
    """`options` with another configuration."""
    return options if config is options.config else msgspec.structs.replace(options, config=config)


def without_foreign_replay(
    options: GenerateOptions, kept: Callable[[Provider], bool]
) -> GenerateOptions:
    """`options` whose messages carry replay state only of routes that are `kept`.

    Provider and model of the others stay: only the adapter's private data is removed.
    """
    foreign = {
        message.id: source
        for message in options.messages
        if type(source := message.source) is ModelSource
        and source.replay_state is not UNSET
        and not kept(source.provider)
    }
    if not foreign:
        return options
    stripped = tuple(_stripped(message, foreign.get(message.id)) for message in options.messages)
    return msgspec.structs.replace(options, messages=stripped)


def _stripped(message: Message, source: ModelSource | None) -> Message:
    if source is None:
        return message
    return msgspec.structs.replace(message, source=ModelSource(source.provider, source.model))
