"""Crashes in the middle of a write, and damage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dsh_session_persistence import SessionPersistenceCorruptionError
from dsh_session_persistence_jsonl._frames import compress, decompress, find_frames

pytestmark = pytest.mark.anyio


def facts(events: Any) -> list[tuple[Any, ...]]:
    return [(e.type, e.seq, e.time, e.raw) for e in events]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("config", [{}, {"compression": "none"}], ids=["zstd", "raw"])
async def test_a_log_cut_at_any_byte_reopens_with_everything_that_was_durable(
    make: Any, opened: Any, parts: Any, config: Any
) -> None:
    path: Path = await make(parts.start(), **config)
    header_and_first = path.stat().st_size
    async with opened(**config) as process:
        whole = (await process.storage.read_from("s", 0))[:2]
        session = process.publish((await process.storage.prepare("s")).session)
        sizes = []
        for batch in (parts.deltas(4), parts.end(), parts.start(2), parts.end(2)):
            await process.write(session, batch)
            sizes.append((path.stat().st_size, session.seq))
        whole = facts(session.events)
    data = path.read_bytes()
    for cut in range(header_and_first, len(data) + 1):
        path.write_bytes(data[:cut])
        durable = max([seq for size, seq in sizes if size <= cut], default=2)
        async with opened(**config) as process:
            shown = (await process.storage.inspect("s")).events
            assert path.read_bytes() == data[:cut]
            with await process.storage.prepare("s") as preparation:
                session = preparation.session
                events = facts(session.events)
            kept = len([e for e in events if e in whole])
            assert kept >= durable
            assert events[:kept] == whole[:kept]
            assert [seq for _, seq, _, _ in events] == list(range(len(events)))
            assert facts(shown) == events[: len(shown)]
            assert facts((await process.storage.load("s")).events) == facts(shown)
        assert find_frames(path.read_bytes()).torn is None or config


async def test_a_missing_last_checksum_byte_loses_nothing(
    make: Any, opened: Any, parts: Any
) -> None:
    path = await make(parts.start(), parts.deltas(4), parts.end())
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    async with opened() as process:
        loaded = await process.storage.load("s")
    assert [event.type for event in loaded.events][-2:] == ["step/end", "turn/end"]
    assert len(loaded.events) == 8
    assert path.read_bytes() == data


async def test_stray_bytes_of_a_frame_that_never_came_are_dropped(
    make: Any, opened: Any, parts: Any
) -> None:
    path = await make(parts.start(), parts.end())
    data = path.read_bytes()
    for stray in (b"\x28\xb5", b"\0" * 700):
        path.write_bytes(data + stray)
        async with opened() as process:
            assert len((await process.storage.load("s")).events) == 4
        assert path.read_bytes() == data


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data, frames: data + compress(b'{"type":"half'),
        lambda data, frames: (
            data + compress(b'{"type":"turn/start","seq":99,"time":1,"data":{}}\n')
        ),
        lambda data, frames: data + compress(b"no json\n"),
        lambda data, frames: data + b"no frame",
        lambda data, frames: data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
        lambda data, frames: data[: frames[2][0]] + data[frames[2][1] :],
    ],
    ids=["half a record", "gap", "no json", "no frame", "checksum", "frame missing"],
)
async def test_damage_is_not_resumed_but_shown_up_to_where_it_is(
    make: Any, opened: Any, parts: Any, spoil: Any
) -> None:
    path = await make(parts.start(), parts.deltas(4), parts.end())
    data = path.read_bytes()
    path.write_bytes(spoil(data, find_frames(data).spans))
    damaged = path.read_bytes()
    async with opened() as process:
        for read in (process.storage.load, process.storage.prepare):
            with pytest.raises(SessionPersistenceCorruptionError, match=str(path)):
                await read("s")
        with pytest.raises(SessionPersistenceCorruptionError):
            await process.storage.read_from("s", 0)
        shown = await process.storage.inspect("s")
        assert str(path) in shown.damage
        assert [event.seq for event in shown.events] == list(range(len(shown.events)))
        assert len(shown.events) in (2, 6, 8)
        assert [header.id for header in await process.storage.list()] == ["s"]
    assert path.read_bytes() == damaged


async def test_a_hole_in_plain_lines_names_the_line_and_what_was_expected(
    make: Any, opened: Any, parts: Any
) -> None:
    turns = [batch for n in (1, 2, 3) for batch in (parts.start(n), parts.end(n))]
    path = await make(*turns, compression="none")
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[6]
    path.write_bytes(b"".join(lines))
    async with opened(compression="none") as process:
        with pytest.raises(SessionPersistenceCorruptionError, match="line 7: expected event 5"):
            await process.storage.prepare("s")
        shown = await process.storage.inspect("s")
        assert len(shown.events) == 5
        assert shown.damage == f"{path}, line 7: expected event 5, found event 6"
        session = process.sessions.create("t", meta=parts.cwd)
        await process.write(session, parts.start())
    assert path.read_bytes() == b"".join(lines)


async def test_a_gap_after_the_last_turn_end_is_a_torn_tail(
    make: Any, opened: Any, parts: Any
) -> None:
    path = await make(parts.start(), parts.end(), parts.start(2), compression="none")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5] + lines[6:]))
    async with opened(compression="none") as process:
        loaded = await process.storage.load("s")
        assert [event.type for event in loaded.events][-1] == "turn/end"
        assert len(loaded.events) == 4
    assert path.read_bytes() == b"".join(lines[:5])


async def test_a_header_that_was_lost_is_an_error(make: Any, opened: Any, parts: Any) -> None:
    path = await make(parts.start())
    data = path.read_bytes()
    (first, *_) = find_frames(data).spans
    for broken in (b"", data[: first[1] - 1], compress(b"a\nb\n"), compress(b"")):
        path.write_bytes(broken)
        async with opened() as process:
            for read in (process.storage.prepare, process.storage.load, process.storage.inspect):
                with pytest.raises(SessionPersistenceCorruptionError):
                    await read("s")
            assert await process.storage.list() == ()
        assert path.read_bytes() == broken
    path.write_bytes(data)
    async with opened() as process:
        assert len((await process.storage.load("s")).events) == 4


@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
async def test_a_log_that_is_no_file_is_refused_by_name(
    make: Any, opened: Any, parts: Any, kind: str
) -> None:
    path = await make(parts.start())
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    async with opened() as process:
        with pytest.raises(SessionPersistenceCorruptionError, match="not a regular file"):
            await process.storage.prepare("s")
        assert await process.storage.list() == ()


async def test_half_characters_of_other_writers_are_read_and_left_on_disk(
    make: Any, opened: Any, parts: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = await make(parts.start(), compression="none")
    line = (
        b'{"type":"assistant/chunk","seq":2,"time":1,"data":{"turn":1,"step":1,'
        b'"chunk":{"type":"text-delta","index":0,"text":"\\ud83d"}}}\n'
    )
    path.write_bytes(path.read_bytes() + line)
    async with opened(compression="none") as process:
        session = (await process.storage.prepare("s")).session
        assert session.events[2].data.chunk.text == "\ufffd"
        assert "line 4" in caplog.text
    assert line in path.read_bytes()


async def test_a_repair_is_one_frame_with_what_was_kept(make: Any, opened: Any, parts: Any) -> None:
    path = await make(parts.start(), parts.deltas(4))
    data = path.read_bytes()
    spans = find_frames(data).spans
    path.write_bytes(data[:-1])
    async with opened() as process:
        await process.storage.load("s")
    repaired = path.read_bytes()
    assert repaired[: spans[2][0]] == data[: spans[2][0]]
    contents = decompress(repaired, find_frames(repaired).spans)
    assert len(contents) == 3
    assert contents[2].count(b"\n") == 3


async def test_no_failed_operation_keeps_the_lock(make: Any, opened: Any, parts: Any) -> None:
    path = await make(parts.start())
    sound = path.read_bytes()
    path.write_bytes(sound + b"no frame")
    async with opened() as one, opened() as two:
        for work in (one.storage.append("s", []), one.storage.load("s"), one.storage.prepare("s")):
            with pytest.raises(SessionPersistenceCorruptionError):
                await work
        path.write_bytes(sound)
        (await two.storage.prepare("s")).dispose()
        await one.storage.load("s")
        (await two.storage.prepare("s")).dispose()
