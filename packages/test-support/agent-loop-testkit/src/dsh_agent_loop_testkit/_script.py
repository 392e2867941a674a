"""A model that says what a test scripted, through the real adapter protocol."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dsh_llm import (
    Adapter,
    BlockEnd,
    BlockStart,
    Failed,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmError,
    LlmFailure,
    MaxTokens,
    Stop,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolCalls,
)

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal
    from dsh_llm import ModelInfo

Chunks: TypeAlias = Sequence[StreamChunk]
Answer: TypeAlias = str | Chunks | AsyncIterator[StreamChunk]
Reply: TypeAlias = Answer | Callable[[GenerateOptions], "Answer | Awaitable[Answer]"]
"""Text, the chunks of a stream, or a function from the request to either (or to a stream)."""


class ScriptedAdapter(Adapter):
    """Answers the n-th request with the n-th reply, and keeps every request.

    A request beyond the script fails with `SCRIPT_EXHAUSTED`.
    """

    requests: list[GenerateOptions]

    def __init__(self, replies: Iterable[Reply] = (), *, models: Iterable[ModelInfo] = ()) -> None:
        """`models` are those that the adapter knows facts about."""
        self._replies = list(replies)
        self._models = {model.id: model for model in models}
        self.requests = []

    def add(self, *replies: Reply) -> None:
        """Go on with `replies` after those that are left."""
        self._replies.extend(replies)

    async def resolve_model(
        self,
        provider: str,  # noqa: ARG002 - one script serves all its routes
        model: str,
        signal: AbortSignal | None,  # noqa: ARG002 - nothing here waits
    ) -> ModelInfo | None:
        """The facts given at creation."""
        return self._models.get(model)

    async def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """The next reply of the script."""
        self.requests.append(options)
        if not self._replies:
            raise LlmError(
                f"the script has no reply for request {len(self.requests)}",
                code="SCRIPT_EXHAUSTED",
            )
        answer = await _answer(self._replies.pop(0), options)
        if isinstance(answer, AsyncIterator):
            async for chunk in answer:
                yield chunk
            return
        for chunk in text_reply(answer) if isinstance(answer, str) else answer:
            yield chunk


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a scripted answer; a mapping is sent as JSON, text as it is."""

    name: str
    arguments: str | Mapping[str, object] = "{}"
    id: str = "c1"

    @property
    def raw(self) -> str:
        """The arguments as the model sends them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


def text_reply(text: str, *, finish: FinishReason | None = None) -> tuple[StreamChunk, ...]:
    """A stream that says `text`, word by word; nothing at all for the empty text."""
    end = Finish(finish or Stop())
    if not text:
        return (end,)
    words = text.split(" ")
    pieces = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
    deltas = (TextDelta(0, piece) for piece in pieces)
    return (BlockStart(0, "text"), *deltas, BlockEnd(0, TextBlock(text)), end)


def call_reply(
    *calls: Call, text: str = "", finish: FinishReason | None = None
) -> tuple[StreamChunk, ...]:
    """A stream that says `text`, if any, and asks for `calls`."""
    chunks: list[StreamChunk] = list(text_reply(text)[:-1])
    for index, call in enumerate(calls, start=1 if text else 0):
        chunks += (
            BlockStart(index, "tool-call"),
            ToolCallDelta(index, call.id, call.name, call.raw),
            BlockEnd(index, ToolCallBlock(call.id, call.name, call.raw)),
        )
    return (*chunks, Finish(finish or ToolCalls()))


def capped_reply(text: str) -> tuple[StreamChunk, ...]:
    """A stream that the output limit cut after `text`."""
    return text_reply(text, finish=MaxTokens())


def failed_reply(
    message: str, *, code: str = "SERVER", status: int | None = None
) -> tuple[StreamChunk, ...]:
    """A stream that fails at once."""
    failure = LlmError(message, code=code, status=status).failure
    return (_failed(failure),)


def _failed(failure: LlmFailure) -> Finish:
    return Finish(Failed(failure))


async def _answer(reply: Reply, options: GenerateOptions) -> Answer:
    if not callable(reply):
        return reply
    answer = reply(options)
    if inspect.isawaitable(answer):
        return await answer
    return answer
