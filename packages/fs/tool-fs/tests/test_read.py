from __future__ import annotations

import os
import socket
import tracemalloc

import pytest
from dsh_fs import FS, FS_OBSERVED
from dsh_fs_local import LocalFileSystem

pytestmark = pytest.mark.anyio


def body(text: str) -> list[str]:
    """The numbered lines of a read."""
    inside = text.partition("<content>\n")[2].rpartition("\n\n(")[0]
    return inside.split("\n") if inside else []


def footer(text: str) -> str:
    return text.split("\n")[-2]


async def test_a_read_shows_path_numbered_lines_and_the_end(kit):
    path = kit.file("a.txt", "one\ntwo\n")
    assert await kit.text("read", file_path="a.txt") == (
        f"<path>{path}</path>\n<type>file</type>\n<content>\n"
        "1: one\n2: two\n\n(end of file, 2 lines in all)\n</content>"
    )


async def test_a_window_says_where_to_go_on(kit):
    kit.file("a.txt", "a\nb\nc\nd\n")
    value = await kit.value("read", file_path="a.txt", offset=2, limit=2)
    assert [(line["number"], line["text"]) for line in value["lines"]] == [(2, "b"), (3, "c")]
    assert value["totalLines"] == 4
    text = await kit.text("read", file_path="a.txt", offset=2, limit=2)
    assert footer(text) == "(lines 2-3 of 4; go on with offset 4)"


async def test_an_empty_file_reads_from_line_1_only(kit):
    kit.file("empty")
    assert footer(await kit.text("read", file_path="empty")) == "(the file is empty)"
    assert await kit.code("read", file_path="empty", offset=2) == "FS_NOT_FOUND"


async def test_an_offset_past_the_end_names_the_length(kit):
    kit.file("a.txt", "one")
    text = await kit.text("read", file_path="a.txt", offset=2)
    assert text.startswith("Error: offset 2 is past the end of ")
    assert text.endswith("which has 1 line")
    assert await kit.code("read", file_path="a.txt", offset=10**15) == "FS_NOT_FOUND"


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 2001}, {"limit": 0}, {"offset": 0}, {"offset": 1.5}, {"limit": True}, {"lines": 3}],
)
async def test_arguments_outside_the_schema_are_refused(kit, wrong):
    kit.file("a.txt", "one")
    assert await kit.code("read", file_path="a.txt", **wrong) == "INVALID_ARGS"


async def test_numbers_that_came_as_text_are_taken(kit):
    kit.file("a.txt", "a\nb\nc\n")
    text = await kit.text("read", file_path="a.txt", offset="2", limit="1")
    assert body(text) == ["2: b"]


async def test_missing_paths_and_directories_are_refused_by_name(kit):
    (kit.root / "dir").mkdir()
    assert "does not exist" in await kit.text("read", file_path="none")
    assert await kit.code("read", file_path="none") == "FS_NOT_FOUND"
    assert await kit.code("read", file_path="  ") == "FS_NOT_FOUND"
    assert await kit.code("read", file_path="") == "INVALID_ARGS"
    assert "is a directory, not a file" in await kit.text("read", file_path="dir")
    assert await kit.code("read", file_path="dir") == "FS_NOT_REGULAR_FILE"


@pytest.mark.parametrize("path", ["pipe", "socket", "/dev/zero", "/dev/tty", "loop"])
async def test_what_is_no_file_is_refused_at_once(kit, path, monkeypatch):
    monkeypatch.chdir(kit.root)
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        code = await kit.code("read", file_path=path)
    assert code in {"FS_NOT_REGULAR_FILE", "FS_IO_ERROR"}


async def test_memory_of_a_process_is_an_error_and_a_made_up_file_is_read(kit):
    assert await kit.code("read", file_path="/proc/self/mem") == "FS_IO_ERROR"
    assert body(await kit.text("read", file_path="/proc/self/status"))[0].startswith("1: Name:")


async def test_binary_and_other_encodings_are_no_text(kit):
    kit.file("binary", b"a\0b")
    kit.file("latin", b"caf\xe9\n")
    assert await kit.code("read", file_path="binary") == "FS_NOT_TEXT"
    assert await kit.code("read", file_path="latin") == "FS_NOT_TEXT"


async def test_a_late_nul_is_shown_as_a_replacement(kit):
    kit.file("late", "x" * 9000 + "\na\0b\n")
    assert body(await kit.text("read", file_path="late", offset=2)) == ["2: a\ufffdb"]


async def test_mark_and_carriage_returns_are_not_shown(kit):
    kit.file("a.txt", b"\xef\xbb\xbfone\r\ntwo\rhalf\r\n")
    assert body(await kit.text("read", file_path="a.txt")) == ["1: one", "2: two\rhalf"]


# -- caps ------------------------------------------------------------------------------------


async def test_a_long_line_is_cut_with_a_note_that_names_the_cap(kit):
    kit.file("a.txt", "x" * 2500 + "\n" + "y" * 2000 + "\r\n")
    first, second = body(await kit.text("read", file_path="a.txt"))
    assert first == f"1: {'x' * 2000}… [line cut at 2000 characters]"
    assert second == f"2: {'y' * 2000}"


async def test_a_large_file_is_capped_with_the_next_offset(kit):
    kit.file("a.txt", f"{'x' * 999}\n" * 100)
    text = await kit.text("read", file_path="a.txt")
    assert len(body(text)) == 51
    assert footer(text) == "(stopped at the size limit; lines 1-51 of 100; go on with offset 52)"
    assert len(body(await kit.text("read", file_path="a.txt", offset=52))) == 49


@pytest.mark.parametrize("before", range(5))
async def test_no_cap_splits_a_character(mount, before):
    async with mount(readMaxLineLength=20, readMaxBytes=64) as kit:
        kit.file("wide", "x" * (20 - before) + "😀" * 50 + "\n" + "ü" * 40 + "\n")
        text = await kit.text("read", file_path="wide")
        assert body(text) == [
            f"1: {'x' * (20 - before)}{'😀' * before}… [line cut at 20 characters]"
        ]
        assert "offset 2)" in footer(text)


@pytest.mark.parametrize("cap", range(1, 10))
async def test_a_first_line_over_the_size_cap_is_cut_at_a_character(mount, cap):
    async with mount(readMaxBytes=cap) as kit:
        kit.file("wide", "a😀ü😀\nb\n")
        [line] = body(await kit.text("read", file_path="wide"))
        head, _, note = line.removeprefix("1: ").partition("…")
        assert "a😀ü😀".startswith(head)
        assert cap - 4 < len(head.encode()) <= cap
        assert note == f" [line cut at {cap} bytes]"


async def test_streamed_and_whole_reads_agree(mount):
    content = "".join(f"{'é😀' * (n % 7)}{n}\r\n" for n in range(5000)) + "last"
    texts = []
    for size in (0, 10**9):
        async with mount(readStreamMinSize=size) as kit:
            kit.file("a.txt", content)
            texts.append(await kit.text("read", file_path="a.txt", offset=1990, limit=7))
    assert texts[0] == texts[1]
    assert "of 5001;" in footer(texts[0])


@pytest.mark.parametrize("offset", [1, 2])
async def test_memory_stays_bounded_on_a_huge_line(kit, offset):
    # Text at the start, then a hole: to a reader 256 MiB of one line, on the disk nothing.
    path = kit.file("huge", "x" * 10_000 + "\n" * (offset - 1))
    os.truncate(path, 256 * 1024 * 1024)
    tracemalloc.start()
    try:
        text = await kit.text("read", file_path="huge", offset=offset)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert body(text)[0].endswith("… [line cut at 2000 characters]")
    assert peak < 20_000_000


async def test_a_read_of_a_huge_file_can_be_aborted(mount):
    pieces = 0

    class Watched(LocalFileSystem):
        async def stream_text(self, target, *, signal=None):
            nonlocal pieces
            async for piece in super().stream_text(target, signal=signal):
                pieces += 1
                if pieces == 3:
                    kit.abort.abort()
                yield piece

    async with mount(files=Watched) as kit:
        os.truncate(kit.file("huge", "x" * 10_000), 1024**3)
        code = await kit.code("read", file_path="huge")
    assert code in {"FS_ABORTED", "ABORTED"}
    assert pieces == 3


# -- what others learn -----------------------------------------------------------------------


async def test_a_read_stats_once_and_changes_never(mount):
    stats = []

    class Counting(LocalFileSystem):
        async def stat(self, target, *, signal=None):
            stats.append(target.display_path)
            return await super().stat(target, signal=signal)

    async with mount(files=Counting) as kit:
        path = kit.file("a.txt", "one")
        await kit.value("read", file_path="a.txt")
        assert stats == [str(path)]
        await kit.value("edit", file_path="a.txt", old_string="one", new_string="two")
        await kit.value("write", file_path="a.txt", content="three")
        assert len(stats) == 1


async def test_a_missing_file_is_observed_as_absent(kit):
    seen = []
    kit.ctx.on(FS_OBSERVED, seen.append)
    await kit.code("read", file_path="none")
    [observed] = seen
    assert (observed.version, observed.owner) == (None, kit.agent.session)


async def test_a_failing_observer_fails_the_read(kit):
    def refuse(_observed):
        raise RuntimeError("no room for what was seen")

    kit.file("a.txt", "one")
    kit.ctx.on(FS_OBSERVED, refuse)
    assert await kit.text("read", file_path="a.txt") == "Error: no room for what was seen"


async def test_the_log_gets_where_not_what(kit):
    path = kit.file("a.txt", "one\ntwo\n")
    outcome = await kit.outcome("read", file_path="a.txt", offset=2)
    assert outcome.meta == {"path": str(path), "offset": 2, "totalLines": 2}


async def test_paths_are_relative_to_the_session_and_parents_are_resolved(kit):
    kit.file("real/deep/a.txt", "one")
    (kit.root / "link").symlink_to("real/deep")
    agent = kit.new_agent(kit.root / "real")
    value = await kit.value("read", agent, file_path="deep/a.txt")
    assert value["path"] == str(kit.root / "real/deep/a.txt")
    # Through the link and up is where the link leads, not where it stands.
    value = await kit.value("read", file_path="link/../deep/a.txt")
    assert value["path"] == str(kit.root / "real/deep/a.txt")


async def test_without_an_agent_paths_start_where_the_files_do(kit, monkeypatch):
    monkeypatch.chdir(kit.root)
    target = await kit.ctx[FS].resolve("a.txt")
    assert target.display_path == str(kit.root / "a.txt")
