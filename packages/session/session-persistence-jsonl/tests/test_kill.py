"""What was acknowledged survives a kill at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

BUSY = """
import asyncio, sys
from dsh_cordis import Context
from dsh_llm import TextDelta
from dsh_session import *
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_session_persistence_jsonl import JsonlSessionPersistence

async def main(root):
    ctx = Context()
    await ctx.plugin(SessionStore)
    config = {"root": root, "writeBatchMaxDelayMs": 1}
    await ctx.plugin(JsonlSessionPersistence, config)
    store, storage = ctx[SESSIONS], ctx[SESSION_PERSISTENCE]
    if await storage.list():
        session = (await storage.prepare("s")).session
    else:
        session = store.prepare("s", meta=SessionMeta(cwd="/a/b"))
    store.enter(session)
    store.announce(session)
    session.append(TURN_START, TurnStart(1))
    while True:
        for _ in range(7):
            session.append(ASSISTANT_CHUNK, AssistantChunk(1, 1, TextDelta(0, "x" * session.seq)))
        length = session.seq
        await store.flush(session)
        print(length, flush=True)
        await asyncio.sleep(0)

asyncio.run(main(sys.argv[1]))
"""


async def test_a_kill_in_the_middle_of_writing_loses_nothing_acknowledged(
    root: Path, opened: Any
) -> None:
    for acknowledgements in (1, 2, 5, 9, 14):
        with subprocess.Popen(
            [sys.executable, "-c", BUSY, str(root)], stdout=subprocess.PIPE, text=True
        ) as busy:
            assert busy.stdout is not None
            for _ in range(acknowledgements):
                length = int(busy.stdout.readline())
            busy.send_signal(signal.SIGKILL)
            # What it still printed before it died was acknowledged too.
            length = max([length, *(int(line) for line in busy.stdout if line.endswith("\n"))])
        async with opened() as process:
            stored = await process.storage.read_from("s", 0)
            assert len(stored) >= length
            assert [event.seq for event in stored] == list(range(len(stored)))
            shown = await process.storage.inspect("s")
            assert shown.damage is None
            assert shown.events[-1].type == "turn/end"
