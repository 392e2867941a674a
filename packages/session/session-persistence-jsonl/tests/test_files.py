"""What is written, and what is left when writing fails."""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dsh_cordis import ConfigError, Context
from dsh_session import SESSIONS, SessionHeader, SessionMeta, SessionStore
from dsh_session_persistence import (
    SESSION_PERSISTENCE,
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceError,
    storage_error,
)
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_session_persistence_jsonl._frames import compress, decompress, find_frames

pytestmark = pytest.mark.anyio


def frames(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return decompress(data, find_frames(data).spans)


async def code_of(work: Any) -> str:
    with pytest.raises(SessionPersistenceError) as caught:
        await work
    return caught.value.code


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel refuses to let any file grow beyond `size`, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_each_batch_adds_one_frame_and_leaves_the_bytes_before(
    opened: Any, root: Path, parts: Any
) -> None:
    async with opened() as process:
        session = process.sessions.create("s", meta=SessionMeta(cwd="/a/b", created_at=7))
        assert not root.exists()
        await process.write(session, parts.start())
        (path,) = root.rglob("session.jsonl.zstd")
        first = path.read_bytes()
        assert path == root / "--a-b--" / "s" / "session.jsonl.zstd"
        assert process.storage.locate(session.header).path == str(path)
        assert len(frames(path)) == 2
        assert json.loads(frames(path)[0]) == {
            "type": "session",
            "version": 0,
            "id": "s",
            "createdAt": 7,
            "cwd": "/a/b",
            "delegationDepth": 0,
        }
        await process.write(session, parts.deltas(5))
        assert len(frames(path)) == 3
        assert path.read_bytes().startswith(first)
        assert len(frames(path)[2].splitlines()) == 1


async def test_files_are_for_their_owner_only(make: Any, parts: Any, root: Path) -> None:
    path = await make(parts.start())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((path.parent / "session.lock").stat().st_mode) == 0o600
    for directory in (root, path.parent, path.parent.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert sorted(p.name for p in path.parent.iterdir()) == ["session.jsonl.zstd", "session.lock"]


async def test_without_packing_and_compression_it_is_plain_lines(
    make: Any, opened: Any, parts: Any
) -> None:
    config = {"compression": "none", "packChunks": False}
    path = await make(parts.start(), parts.deltas(5), parts.end(), **config)
    assert path.name == "session.jsonl"
    kinds = [json.loads(line)["type"] for line in path.read_bytes().splitlines()]
    assert kinds == [
        "session",
        "turn/start",
        "step/start",
        *["assistant/chunk"] * 5,
        "step/end",
        "turn/end",
    ]
    async with opened(compression="none") as process:
        assert len((await process.storage.load("s")).events) == 9


@pytest.mark.parametrize("config", [{}, {"compression": "none"}])
async def test_a_failed_write_leaves_the_bytes_and_the_retry_works(
    opened: Any, root: Path, parts: Any, config: Any
) -> None:
    async with opened(**config) as process:
        session = process.sessions.create("s", meta=parts.cwd)
        await process.write(session, parts.start())
        (path,) = root.rglob("session.jsonl*")
        before = path.read_bytes()
        parts.deltas(50)(session)
        with file_size_limit(len(before) + 20):
            assert await code_of(process.sessions.flush(session)) == "STORAGE_FULL"
            assert path.read_bytes() == before
            assert (await process.storage.inspect("s")).events == tuple(session.events)
        assert await process.sessions.flush(session)
    async with opened(**config) as process:
        assert len(await process.storage.read_from("s", 0)) == session.seq


async def test_a_full_disk_at_the_first_write_leaves_nothing(
    opened: Any, root: Path, parts: Any
) -> None:
    async with opened() as process:
        session = process.sessions.create("s", meta=parts.cwd)
        parts.deltas(50)(session)
        with file_size_limit(10):
            assert await code_of(process.sessions.flush(session)) == "STORAGE_FULL"
        assert [p for p in root.rglob("*") if "jsonl" in p.name] == []
        assert await process.storage.list() == ()
        assert await process.sessions.flush(session)
        assert [header.id for header in await process.storage.list()] == ["s"]


async def test_a_root_below_a_file_is_an_error_that_names_it(tmp_path: Path, parts: Any) -> None:
    (tmp_path / "file").write_text("")
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        await ctx.plugin(JsonlSessionPersistence, {"root": str(tmp_path / "file" / "sessions")})
        session = ctx[SESSIONS].create("s")
        parts.start()(session)
        with pytest.raises(SessionPersistenceError, match="sessions") as caught:
            await ctx[SESSIONS].flush(session)
        assert caught.value.code == "STORAGE_FAILED"
        assert session.seq == 2


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs a place nobody may write to")
async def test_a_place_that_cannot_be_written_to_is_an_error_that_names_it(parts: Any) -> None:
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        await ctx.plugin(JsonlSessionPersistence, {"root": "/proc/self/sessions"})
        session = ctx[SESSIONS].create("s")
        parts.start()(session)
        with pytest.raises(SessionPersistenceError, match="/proc/self/sessions"):
            await ctx[SESSIONS].flush(session)


@contextmanager
def nobody_may_write(directory: Path) -> Iterator[None]:
    """Everything below is readable only, also for a test that runs as root."""
    paths = [directory, *directory.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for path in paths:
            path.chmod(0o700 if path.is_dir() else 0o600)


async def test_with_a_read_only_home_stored_sessions_stay_readable(parts: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        async with Context() as ctx:
            await ctx.plugin(SessionStore)
            await ctx.plugin(JsonlSessionPersistence, {"root": directory})
            store, storage = ctx[SESSIONS], ctx[SESSION_PERSISTENCE]
            old = store.prepare("old")
            detach = store.enter(old)
            store.announce(old)
            parts.start()(old)
            await store.flush(old)
            detach()
            await storage.read_from("old", 0)
            with nobody_may_write(home):
                assert [header.id for header in await storage.list()] == ["old"]
                assert len((await storage.inspect("old")).events) == 4
                for work in (storage.prepare("old"), storage.load("old")):
                    assert await code_of(work) == "STORAGE_READ_ONLY"
                new = store.create("new")
                parts.start()(new)
                assert await code_of(store.flush(new)) == "STORAGE_READ_ONLY"
            assert await store.flush(new)
            assert len((await storage.load("old")).events) == 4


async def test_a_root_that_is_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        with pytest.raises(ConfigError, match="not a readable directory"):
            await ctx.plugin(JsonlSessionPersistence, {"root": str(tmp_path / "file")})


async def test_a_log_that_someone_else_changed_is_not_written_to(
    opened: Any, root: Path, parts: Any
) -> None:
    async with opened() as process:
        session = process.sessions.create("s", meta=parts.cwd)
        await process.write(session, parts.start())
        (path,) = root.rglob("session.jsonl.zstd")
        changed = path.read_bytes() + compress(b"{}\n")
        path.write_bytes(changed)
        parts.deltas(1)(session)
        assert await code_of(process.sessions.flush(session)) == "SESSION_CHANGED"
        assert path.read_bytes() == changed
        path.unlink()
        assert await code_of(process.sessions.flush(session)) == "STORAGE_FAILED"


async def test_reading_a_live_log_does_not_excuse_a_foreign_change(
    opened: Any, root: Path, parts: Any
) -> None:
    async with opened() as process:
        session = process.sessions.create("s", meta=parts.cwd)
        await process.write(session, parts.start())
        (path,) = root.rglob("session.jsonl.zstd")
        path.write_bytes(path.read_bytes() + b"\x28\xb5")
        assert len(await process.storage.read_from("s", 0)) == 2
        parts.deltas(1)(session)
        assert await code_of(process.sessions.flush(session)) == "SESSION_CHANGED"


async def test_a_header_longer_than_usual_is_read(opened: Any, parts: Any) -> None:
    cwd = "/" + "x" * 9000
    async with opened() as process:
        session = process.sessions.create("s", meta=SessionMeta(cwd=cwd))
        await process.write(session, parts.start())
    async with opened() as process:
        assert [header.cwd for header in await process.storage.list()] == [cwd]
        assert len((await process.storage.load("s")).events) == 4


async def test_a_log_that_appears_meanwhile_is_not_overwritten(
    opened: Any, root: Path, parts: Any
) -> None:
    async with opened() as process:
        await process.storage.create(SessionHeader(id="s", created_at=1, cwd="/a/b"))
        directory = root / "--a-b--" / "s"
        directory.mkdir(parents=True)
        (directory / "session.jsonl.zstd").write_bytes(b"someone else's")
        session = process.sessions.prepare("t", meta=parts.cwd)
        parts.start()(session)
        assert await code_of(process.storage.append("s", session.events)) == "SESSION_COLLISION"
        assert (directory / "session.jsonl.zstd").read_bytes() == b"someone else's"


@pytest.mark.parametrize(
    ("made", "reopened", "stray"),
    [
        ({}, {"compression": "none"}, "session.jsonl.zstd"),
        ({"compression": "none"}, {}, "s/session.jsonl"),
    ],
)
async def test_a_root_in_the_other_encoding_is_refused_naming_the_file(
    make: Any, opened: Any, parts: Any, made: Any, reopened: Any, stray: str
) -> None:
    await make(parts.start(), **made)
    async with opened(**reopened) as process:
        with pytest.raises(SessionPersistenceError, match=stray) as caught:
            await process.storage.load("s")
        assert caught.value.code == "LAYOUT_MIXED"
        session = process.sessions.create("s", meta=parts.cwd)
        parts.start()(session)
        assert await code_of(process.sessions.flush(session)) == "LAYOUT_MIXED"


async def test_flat_logs_of_an_older_layout_are_refused(make: Any, opened: Any, parts: Any) -> None:
    path = await make(parts.start(), session_id="other")
    flat = path.parent.parent / "s.jsonl"
    flat.write_text("")
    async with opened() as process:
        with pytest.raises(SessionPersistenceError, match=r"s\.jsonl"):
            await process.storage.load("s")


async def test_a_log_in_two_places_or_the_wrong_one_is_refused(
    make: Any, opened: Any, parts: Any, root: Path
) -> None:
    path = await make(parts.start())
    copy = root / "--elsewhere--" / "s"
    copy.mkdir(parents=True)
    (copy / path.name).write_bytes(path.read_bytes())
    async with opened() as process:
        assert await code_of(process.storage.load("s")) == "SESSION_AMBIGUOUS"
        path.unlink()
        with pytest.raises(SessionPersistenceError, match="--a-b--") as caught:
            await process.storage.load("s")
        assert caught.value.code == "SESSION_MISPLACED"


async def test_a_project_directory_may_be_a_link_to_the_right_one(
    make: Any, opened: Any, parts: Any, root: Path
) -> None:
    path = await make(parts.start(), parts.end())
    project = path.parent.parent
    project.rename(root.parent / "moved")
    project.symlink_to(root.parent / "moved")
    async with opened() as process:
        assert len((await process.storage.load("s")).events) == 4


async def test_one_bad_file_does_not_hide_the_others_from_the_list(
    make: Any, opened: Any, parts: Any, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await make(parts.start(), session_id="good")
    project = root / "--a-b--"
    for name, content in {
        "empty": b"",
        "partial": compress(b"x")[:5],
        "garbage": b"not zstd at all",
        "future": compress(b'{"type":"session","version":99,"id":"future"}\n'),
        "other": compress(b'{"type":"nothing"}\n'),
    }.items():
        (project / name).mkdir()
        (project / name / "session.jsonl.zstd").write_bytes(content)
    (root / "stray file").write_text("")
    (project / "good" / "session.jsonl.zstd.abc.tmp").write_bytes(b"left behind")
    async with opened() as process:
        assert [header.id for header in await process.storage.list()] == ["good"]
    for name in ("garbage", "future", "other"):
        assert f"/{name}/" in caplog.text


@pytest.mark.parametrize(("version", "word"), [(99, "newer"), (-1, "older")])
async def test_other_versions_are_refused_before_their_shape_is_judged(
    make: Any, opened: Any, parts: Any, version: int, word: str
) -> None:
    path = await make(parts.start())
    line = json.dumps({"type": "session", "version": version, "id": "s", "strange": [1]})
    path.write_bytes(compress(line.encode() + b"\n"))
    async with opened() as process:
        for read in (process.storage.load, process.storage.inspect, process.storage.prepare):
            with pytest.raises(SessionFormatUnsupportedError, match=word) as caught:
                await read("s")
        assert str(version) in str(caught.value)
        assert " 0" in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"delegationDepth": None},
        {"createdAt": -1},
        {"cwd": "relative"},
        {"origin": "x"},
        {"sandboxMode": "read-only"},
        {"approvalPolicy": "ask"},
    ],
)
async def test_invalid_or_retired_header_fields_are_corruption(
    make: Any, opened: Any, parts: Any, fields: dict[str, Any]
) -> None:
    path = await make(parts.start())
    header = json.loads(frames(path)[0]) | fields
    header = {key: value for key, value in header.items() if value is not None}
    path.write_bytes(compress(json.dumps(header).encode() + b"\n"))
    async with opened() as process:
        with pytest.raises(SessionPersistenceCorruptionError, match="header"):
            await process.storage.load("s")


async def test_the_raw_log_is_its_lines(make: Any, opened: Any, parts: Any) -> None:
    path = await make(parts.start(), parts.deltas(4), parts.end())
    whole = b"".join(frames(path))
    path.write_bytes(path.read_bytes() + compress(b'{"type":"x"}\n')[:-1])
    async with opened() as process:
        assert process.storage.supports_raw_artifacts
        artifact = await process.storage.read_raw("s")
        assert (artifact.filename, artifact.content, artifact.meta.id) == (
            "session.jsonl",
            whole,
            "s",
        )
        assert await process.storage.read_raw("absent") is None


async def test_snake_case_configuration_is_the_same(tmp_path: Path) -> None:
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        config = {"root": str(tmp_path), "write_batch_max_delay_ms": 5, "pack_chunks": False}
        await ctx.plugin(JsonlSessionPersistence, config)
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        with pytest.raises(ConfigError):
            await ctx.plugin(JsonlSessionPersistence, {"root": str(tmp_path), "packChunk": True})
        with pytest.raises(ConfigError):
            await ctx.plugin(
                JsonlSessionPersistence, {"root": str(tmp_path), "writeBatchMaxDelayMs": 0}
            )


@pytest.mark.parametrize("reading", [True, False])
def test_what_may_not_be_read_is_not_called_read_only(reading: bool) -> None:
    error = storage_error("do it", PermissionError(errno.EACCES, "denied"), reading=reading)
    assert error.code == ("STORAGE_FAILED" if reading else "STORAGE_READ_ONLY")
    assert "denied" in str(error)


async def test_a_root_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        with pytest.raises(ConfigError, match="loop"):
            await ctx.plugin(JsonlSessionPersistence, {"root": str(loop / "sessions")})
