"""One writer at a time, across real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dsh_session_persistence import SessionPersistenceError

pytestmark = pytest.mark.anyio

WRITER = """
import asyncio, json, sys
from dsh_cordis import Context, CordisError
from dsh_session import *
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_session_persistence_jsonl import JsonlSessionPersistence

async def main(root, mode):
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        await ctx.plugin(JsonlSessionPersistence, {"root": root})
        store = ctx[SESSIONS]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            if mode == "create":
                session = store.create("s", meta=SessionMeta(cwd="/a/b"))
            else:
                session = (await ctx[SESSION_PERSISTENCE].prepare("s")).session
                def live():
                    yield store.enter(session)
                    store.announce(session)
                ctx.effect(live)
            session.append(TURN_START, TurnStart(session.seq + 1))
            await store.flush(session)
        except CordisError as error:
            print(json.dumps([error.code, str(error)]), flush=True)
            return
        print(json.dumps(["won", session.seq]), flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


class Writer:
    """A process that opens the session when it is told to, and keeps it until told to end."""

    def __init__(self, root: Path, mode: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in = self.process.stdin
        self._out = self.process.stdout

    def ready(self) -> Writer:
        assert self._out.readline() == "ready\n"
        return self

    def go(self) -> None:
        self._in.write("\n")
        self._in.flush()

    def answer(self) -> list[Any]:
        return json.loads(self._out.readline())

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.go()
        self.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self.process.wait()
        for pipe in (self._in, self._out):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def test_a_second_process_is_refused_at_once_and_takes_over_after_a_kill(root: Path) -> None:
    first = Writer(root, "create").ready()
    first.go()
    assert first.answer() == ["won", 1]
    second = Writer(root, "resume").ready()
    second.go()
    code, text = second.answer()
    assert code == "SESSION_LOCKED"
    assert f"process {first.process.pid} on" in text
    assert "since 20" in text
    second.end()
    first.kill()
    third = Writer(root, "resume").ready()
    third.go()
    # The turn of the killed one was closed, the seed was ended, and one event is new.
    assert third.answer() == ["won", 4]
    third.end()


async def test_another_process_can_read_what_one_is_writing(root: Path, opened: Any) -> None:
    writer = await asyncio.to_thread(lambda: Writer(root, "create").ready())
    writer.go()
    assert await asyncio.to_thread(writer.answer) == ["won", 1]
    async with opened() as process:
        assert [header.id for header in await process.storage.list()] == ["s"]
        shown = await process.storage.inspect("s")
        assert [event.type for event in shown.events] == ["turn/start", "turn/end"]
        assert len(await process.storage.read_from("s", 0)) == 1
        with pytest.raises(SessionPersistenceError) as caught:
            await process.storage.load("s")
        assert caught.value.code == "SESSION_LOCKED"
    await asyncio.to_thread(writer.end)
    async with opened() as process:
        assert len((await process.storage.load("s")).events) == 2


@pytest.mark.timeout(120)
def test_of_two_that_start_at_the_same_instant_exactly_one_wins(root: Path) -> None:
    length = 0
    for number in range(20):
        mode = "resume" if number else "create"
        writers = [Writer(root, mode), Writer(root, mode)]
        for writer in writers:
            writer.ready()
        for writer in writers:
            writer.go()
        answers = [writer.answer() for writer in writers]
        codes = sorted(answer[0] for answer in answers)
        assert codes == ["SESSION_LOCKED", "won"], answers
        (length,) = (answer[1] for answer in answers if answer[0] == "won")
        winner = next(w for w, a in zip(writers, answers, strict=True) if a[0] == "won")
        loser = next(a[1] for a in answers if a[0] != "won")
        assert f"process {winner.process.pid} " in loser
        for writer in writers:
            writer.kill()
    (path,) = root.rglob("session.jsonl.zstd")
    from dsh_session import SessionEventTypes
    from dsh_session_persistence_jsonl._artifact import read_artifact

    log = read_artifact(path, SessionEventTypes(dict)).log
    assert log.damage is None
    assert [event.seq for event in log.events] == list(range(length))
    assert sum(event.type == "turn/start" for event in log.events) == 20


async def test_the_lock_is_released_with_the_session_and_with_the_storage(
    make: Any, opened: Any, parts: Any
) -> None:
    await make(parts.start())
    async with opened() as one, opened() as two:
        preparation = await one.storage.prepare("s")
        with pytest.raises(SessionPersistenceError) as caught:
            await two.storage.prepare("s")
        assert caught.value.code == "SESSION_LOCKED"
        assert f"process {os.getpid()} " in str(caught.value)
        preparation.dispose()
        (await two.storage.prepare("s")).dispose()
        held = await one.storage.prepare("s")
        assert held.session.id == "s"
        await one.ctx.fiber.dispose()
        (await two.storage.prepare("s")).dispose()


async def test_an_old_lock_file_means_nothing(make: Any, opened: Any, parts: Any) -> None:
    path = await make(parts.start())
    lock = path.with_name("session.lock")
    assert json.loads(lock.read_text())["pid"] == os.getpid()
    lock.write_text('{"pid":1,"host":"elsewhere","startedAt":"2020-01-01T00:00:00+00:00"}')
    async with opened() as process:
        with await process.storage.prepare("s"):
            assert json.loads(lock.read_text())["pid"] == os.getpid()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files there")
async def test_sessions_that_ended_leave_nothing_open_or_running(opened: Any, parts: Any) -> None:
    async with opened() as process:

        async def one(name: str) -> None:
            session = process.sessions.prepare(name, meta=parts.cwd)
            detach = process.sessions.enter(session)
            process.sessions.announce(session)
            await process.write(session, parts.start(), parts.end())
            detach()
            await process.storage.read_from(name, 0)

        await one("first")
        files, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for number in range(30):
            await one(f"s{number}")
        assert len(os.listdir("/proc/self/fd")) == files
        assert len(asyncio.all_tasks()) == tasks
