from __future__ import annotations

import os
import socket
import stat

import pytest
from dsh_cordis import AbortController
from dsh_fs import FsError

pytestmark = pytest.mark.anyio


async def code_of(awaitable) -> str:
    with pytest.raises(FsError) as caught:
        await awaitable
    return caught.value.code


async def test_aliases_of_a_file_share_one_key(place):
    (place.root / "real.txt").write_text("x")
    (place.root / "alias").symlink_to("real.txt")
    assert (await place.target("alias")).key == (await place.target("./real.txt")).key


async def test_the_key_of_a_missing_file_survives_its_creation(place):
    before = await place.target("new/deep.txt")
    await place.files.write_text(before, "x")
    assert (await place.target("new/deep.txt")).key == before.key


async def test_blank_path_is_not_found(place):
    assert await code_of(place.target("  ")) == "FS_NOT_FOUND"


async def test_a_path_with_nul_is_refused(place):
    target = place.target("a\0b")
    with pytest.raises(FsError):
        await place.files.read_text(await target)


async def test_reading_drops_the_byte_order_mark_and_nothing_else(place):
    (place.root / "bom.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    read = await place.files.read_text(await place.target("bom.txt"))
    assert read.text == "one\r\ntwo\r\n"


async def test_binary_and_broken_text_are_not_text(place):
    (place.root / "nul").write_bytes(b"a\0b")
    (place.root / "latin").write_bytes(b"caf\xe9")
    assert await code_of(place.files.read_text(await place.target("nul"))) == "FS_NOT_TEXT"
    assert await code_of(place.files.read_text(await place.target("latin"))) == "FS_NOT_TEXT"


@pytest.mark.parametrize("path", ["pipe", "socket", "/dev/zero", "directory"])
async def test_what_is_no_file_is_refused_at_once(place, path, monkeypatch):
    monkeypatch.chdir(place.root)
    os.mkfifo("pipe")
    os.mkdir("directory")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        target = await place.target(path)
        assert await code_of(place.files.read_text(target)) == "FS_NOT_REGULAR_FILE"
        assert await code_of(place.files.write_text(target, "x")) == "FS_NOT_REGULAR_FILE"


async def test_unreadable_memory_of_a_process_is_an_error_not_a_hang(place):
    target = await place.target("/proc/self/mem")
    assert await code_of(place.files.read_text(target)) == "FS_IO_ERROR"


async def test_read_bytes_never_cuts(place):
    (place.root / "five").write_bytes(b"12345")
    target = await place.target("five")
    assert await place.files.read_bytes(target, max_bytes=5) == b"12345"
    assert await code_of(place.files.read_bytes(target, max_bytes=4)) == "FS_TOO_LARGE"


async def test_a_file_that_is_longer_than_it_says_is_too_large(place):
    # The kernel gives this file no size, as it could be outdated for one that grows.
    target = await place.target("/proc/self/status")
    status = await place.files.stat(target)
    assert status is not None
    assert status.size == 0
    assert await code_of(place.files.read_bytes(target, max_bytes=20)) == "FS_TOO_LARGE"


async def test_a_whole_read_can_be_aborted_between_its_pieces(place):
    (place.root / "big.txt").write_bytes(b"x" * 5_000_000)
    answers = iter([False, False, True])

    class Third:
        @property
        def aborted(self) -> bool:
            return next(answers)

    target = await place.target("big.txt")
    assert await code_of(place.files.read_text(target, signal=Third())) == "FS_ABORTED"


async def test_a_parent_of_a_link_is_where_the_link_leads(place):
    (place.root / "a/b").mkdir(parents=True)
    (place.root / "link").symlink_to("a/b")
    target = await place.target("link/../f")
    assert target.display_path == str(place.root / "a/f") == target.key
    plain = await place.target("./link//f")
    assert plain.display_path == str(place.root / "link/f")


async def test_streamed_text_equals_read_text_with_characters_across_pieces(place):
    text = "ü😀\n" * 400_000
    (place.root / "big.txt").write_text(text)
    target = await place.target("big.txt")
    pieces = [piece async for piece in place.files.stream_text(target)]
    assert len(pieces) > 1
    assert "".join(pieces) == text


async def test_streaming_stops_when_the_signal_aborts(place):
    (place.root / "big.txt").write_text("x" * 3_000_000)
    controller = AbortController()
    stream = place.files.stream_text(await place.target("big.txt"), signal=controller.signal)
    await anext(stream)
    controller.abort()
    assert await code_of(anext(stream)) == "FS_ABORTED"


async def test_stat_tells_missing_type_and_size(place):
    (place.root / "file").write_text("abc")
    found = await place.files.stat(await place.target("file"))
    assert found is not None
    assert (found.type, found.size) == ("file", 3)
    assert await place.files.stat(await place.target("none")) is None
    assert await place.files.stat(await place.target("file/below")) is None


async def test_lstat_sees_the_link_itself(place):
    (place.root / "dangling").symlink_to("nowhere")
    found = await place.files.lstat("dangling", cwd=str(place.root))
    assert found is not None
    assert found.type == "symlink"


async def test_listing_is_sorted_and_broken_links_are_other(place):
    (place.root / "b").mkdir()
    (place.root / "a").write_text("")
    (place.root / "c").symlink_to("nowhere")
    (place.root / "d").symlink_to("d")
    entries = await place.files.list_dir(await place.target("."))
    assert [(entry.name, entry.type) for entry in entries] == [
        ("a", "file"),
        ("b", "directory"),
        ("c", "other"),
        ("d", "other"),
    ]


async def test_listing_a_file_or_nothing_is_refused(place):
    (place.root / "file").write_text("")
    assert await code_of(place.files.list_dir(await place.target("file"))) == "FS_NOT_DIRECTORY"
    assert await code_of(place.files.list_dir(await place.target("none"))) == "FS_NOT_FOUND"


async def test_containment_is_about_real_places(place):
    (place.root / "in").mkdir()
    (place.root / "out").symlink_to("/")
    root, inside, outside = [await place.target(p) for p in (".", "in/x", "out/etc")]
    assert place.files.contains(root, inside)
    assert not place.files.contains(root, outside)


NAMES = [
    "app/[id]/page.tsx",
    "a b/ü.txt",
    "-n.txt",
    "x{1,2}.py",
    "(group)/*.md",
    "line\nbreak.txt",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_path_is_a_path_whatever_it_looks_like(place, name):
    target = await place.target(name)
    await place.files.write_text(target, "one\n")
    read = await place.files.read_text(await place.target(name))
    assert read.text == "one\n"
    assert [p for p in place.root.rglob("*") if p.is_file()] == [place.root / name]


async def test_descriptors_are_closed_after_failed_reads(place):
    before = len(os.listdir("/proc/self/fd"))
    (place.root / "latin").write_bytes(b"\xff")
    for path in ("latin", "none", "/dev/zero", "."):
        with pytest.raises(FsError):
            await place.files.read_text(await place.target(path))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_new_files_get_the_mode_of_the_umask(place):
    previous = os.umask(0o027)
    try:
        await place.files.write_text(await place.target("new"), "x")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((place.root / "new").stat().st_mode) == 0o640
