"""A model's stream into the log: the hot path of the product."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import msgspec
from dsh_llm import BlockAssembler
from dsh_session import ASSISTANT_CHUNK, AssistantChunk

from ._failures import is_failure

if TYPE_CHECKING:
    from dsh_llm import StreamChunk
    from dsh_session import Session

    from ._turn import Turn

_BREATH: Final = 64
"""Chunks between two visits to the event loop, for streams that never wait by themselves."""


class Streamed(msgspec.Struct, frozen=True):
    """What came, and the log positions of its chunks."""

    assembler: BlockAssembler
    seqs: tuple[int, ...]


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


async def stream_to_log(
    session: Session, turn: Turn, stream: AsyncIterator[StreamChunk]
) -> Streamed:
    """Log and assemble `stream` to its end, or until the turn's signal is aborted.

    An aborted stream is closed and what came before is returned, even if the stream raised. Raises
    what a listener of the stream or the log raised otherwise.
    """
    assembler = BlockAssembler()
    seqs: list[int] = []
    finished = False
    try:
        finished = await _pump(session, turn, stream, assembler, seqs)
    except BaseException as error:
        if not (turn.signal.aborted and is_failure(error)):
            raise
    finally:
        if not finished and isinstance(stream, _Closable):
            await stream.aclose()
    return Streamed(assembler, tuple(seqs))


async def _pump(
    session: Session,
    turn: Turn,
    stream: AsyncIterator[StreamChunk],
    assembler: BlockAssembler,
    seqs: list[int],
) -> bool:
    """True if the stream ended by itself."""
    signal = turn.signal
    number, step = turn.number, turn.step
    append, push, note = session.append, assembler.push, seqs.append
    await asyncio.sleep(0)
    async for chunk in stream:
        if signal.aborted:
            return False
        note(append(ASSISTANT_CHUNK, AssistantChunk(number, step, chunk)).seq)
        push(chunk)
        if not len(seqs) % _BREATH:
            await asyncio.sleep(0)
    return True
