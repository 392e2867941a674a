"""Appends and reopening: `append N`, `durable N`, `reopen N` print seconds for N events."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time

from dsh_cordis import Context
from dsh_llm import SessionId, TextDelta
from dsh_session import (
    ASSISTANT_CHUNK,
    SESSIONS,
    AssistantChunk,
    Session,
    SessionMeta,
    SessionStore,
)
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_session_persistence_jsonl import JsonlSessionPersistence


def fill(session: Session, count: int) -> None:
    """Append `count` events that do not pack into one row: their index changes."""
    append = session.append
    for n in range(count):
        append(ASSISTANT_CHUNK, AssistantChunk(1, 1, TextDelta(n % 2, "token")))


async def measure(what: str, count: int, directory: str) -> float:
    async with Context() as root:
        await root.plugin(SessionStore)
        if what == "append":
            session = root[SESSIONS].create()
            began = time.perf_counter()
            fill(session, count)
            return time.perf_counter() - began
        await root.plugin(JsonlSessionPersistence, {"root": directory})
        session = root[SESSIONS].create(SessionId("s"), meta=SessionMeta(cwd=directory))
        began = time.perf_counter()
        fill(session, count)
        await root[SESSIONS].flush(session)
        took = time.perf_counter() - began
    if what == "durable":
        return took
    async with Context() as root:
        await root.plugin(SessionStore)
        await root.plugin(JsonlSessionPersistence, {"root": directory})
        began = time.perf_counter()
        with await root[SESSION_PERSISTENCE].prepare(SessionId("s")) as prepared:
            assert prepared.session.seq >= count
            return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        took = asyncio.run(measure(sys.argv[1], int(sys.argv[2]), directory))
    sys.stdout.write(f"{took}\n")


if __name__ == "__main__":
    main()
