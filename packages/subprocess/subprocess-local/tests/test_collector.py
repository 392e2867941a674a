"""The kept tail and its file, for any way in which a stream may arrive."""

from __future__ import annotations

import itertools
import stat
import threading
from pathlib import Path

import pytest
from dsh_subprocess import Collect, OutputRead
from dsh_subprocess_local._collector import SpillDirectory, TailCollector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

readable = st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufffd")
chunks_of_bytes = st.lists(st.binary(min_size=1, max_size=12), max_size=12)
same_directory = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def collect(collector: TailCollector, chunks: list[bytes]) -> OutputRead:
    for chunk in chunks:
        if collector.push(chunk):
            collector.spill()
    if collector.end():
        collector.finish()
    return collector.read_from(0)


@given(chunks_of_bytes, st.integers(1, 40))
def test_the_tail_is_the_same_however_the_stream_is_cut(chunks: list[bytes], cap: int) -> None:
    whole = b"".join(chunks)
    limits = Collect(max_bytes=cap)
    read = collect(TailCollector(limits, SpillDirectory()), chunks)
    at_once = collect(TailCollector(limits, SpillDirectory()), [whole] if whole else [])
    assert read == at_once
    assert read.lossy is (len(whole) > cap)
    assert read.next_offset == len(whole)
    if not read.lossy:
        assert read.text == whole.decode("utf-8", "replace").replace("\0", "\ufffd")


@same_directory
@given(chunks=chunks_of_bytes, cap=st.integers(1, 30), file_cap=st.integers(1, 90))
def test_the_file_is_the_whole_stream_up_to_its_cap_and_nothing_beyond(
    chunks: list[bytes], cap: int, file_cap: int, tmp_path: Path
) -> None:
    whole = b"".join(chunks)
    before = set(tmp_path.rglob("stream-*"))
    limits = Collect(max_bytes=cap, spill_max_bytes=file_cap)
    read = collect(TailCollector(limits, SpillDirectory(tmp_path)), chunks)
    new = set(tmp_path.rglob("stream-*")) - before
    if cap < len(whole) <= file_cap:
        assert read.spill_path is not None
        assert new == {Path(read.spill_path)}
        assert Path(read.spill_path).read_bytes() == whole
    else:
        assert read.spill_path is None
        assert new == set()
    assert (
        read.text == collect(TailCollector(Collect(max_bytes=cap), SpillDirectory()), chunks).text
    )


@given(st.text(readable, max_size=30), st.integers(1, 60), st.lists(st.integers(0, 120)))
def test_no_character_of_a_utf8_stream_is_ever_half(text: str, cap: int, cuts: list[int]) -> None:
    whole = text.encode()
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    collector = TailCollector(Collect(max_bytes=cap), SpillDirectory())
    for start, end in itertools.pairwise(edges):
        collector.push(whole[start:end])
        assert "\ufffd" not in collector.read_from(0).text
    collector.end()
    assert text.endswith(collector.read_from(0).text)


@given(st.text(readable, max_size=40), st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_readers_that_follow_the_offsets_get_every_character_once(
    text: str, sizes: list[int]
) -> None:
    rest = text.encode()
    collector = TailCollector(Collect(max_bytes=1000), SpillDirectory())
    offset, got = 0, ""
    for size in [*sizes, len(rest) + 1]:
        chunk, rest = rest[:size], rest[size:]
        if chunk:
            collector.push(chunk)
        read = collector.read_from(offset)
        offset, got = read.next_offset, got + read.text
    collector.end()
    assert got + collector.read_from(offset).text == text


def test_exactly_the_cap_is_not_truncated() -> None:
    limits = Collect(max_bytes=10)
    exact = collect(TailCollector(limits, SpillDirectory()), [b"0123456789"])
    assert (exact.text, exact.lossy) == ("0123456789", False)
    more = collect(TailCollector(limits, SpillDirectory()), [b"0123456789", b"a"])
    assert (more.text, more.lossy) == ("123456789a", True)


def test_reading_consumes_nothing_and_an_old_offset_gives_the_whole_window() -> None:
    collector = TailCollector(Collect(max_bytes=4), SpillDirectory())
    collect(collector, [b"abcdef"])
    assert collector.read_from(1) == collector.read_from(0) == OutputRead("cdef", 6, True, None)
    assert collector.read_from(4) == OutputRead("ef", 6, False, None)
    assert collector.read_from(6) == OutputRead("", 6, False, None)


def test_the_end_of_a_stream_inside_a_character_is_marked() -> None:
    collector = TailCollector(Collect(max_bytes=9), SpillDirectory())
    collector.push(b"caf\xc3")
    assert collector.read_from(0) == OutputRead("caf", 3, False, None)
    collector.end()
    assert collector.read_from(0) == OutputRead("caf\ufffd", 4, False, None)


def test_the_file_and_its_directory_are_private(tmp_path: Path) -> None:
    limits = Collect(max_bytes=1, spill_max_bytes=10)
    directory = SpillDirectory(tmp_path)
    paths = [collect(TailCollector(limits, directory), [b"ab"]).spill_path for _ in range(2)]
    files = [Path(path) for path in paths if path is not None]
    assert len(set(files)) == 2
    assert {file.parent for file in files} == set(tmp_path.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


def test_a_directory_that_a_cleaner_removed_is_made_again(tmp_path: Path) -> None:
    limits = Collect(max_bytes=1, spill_max_bytes=10)
    directory = SpillDirectory(tmp_path)
    first = collect(TailCollector(limits, directory), [b"ab"]).spill_path
    assert first is not None
    Path(first).unlink()
    Path(first).parent.rmdir()
    second = collect(TailCollector(limits, directory), [b"ab"]).spill_path
    assert second is not None
    assert Path(second).read_bytes() == b"ab"


def test_streams_that_spill_at_the_same_time_share_one_directory(tmp_path: Path) -> None:
    directory = SpillDirectory(tmp_path)
    opened = []
    threads = [
        threading.Thread(target=lambda: opened.append(directory.open_file())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, file in opened:
        file.close()
    assert len({path.parent for path, _ in opened}) == 1
    assert len({path for path, _ in opened}) == 8


@pytest.mark.parametrize("place", ["/nowhere/at/all", "/dev/null"])
def test_a_file_that_cannot_be_made_costs_only_its_path(place: str) -> None:
    collector = TailCollector(Collect(max_bytes=2, spill_max_bytes=99), SpillDirectory(Path(place)))
    assert collect(collector, [b"abc", b"def"]) == OutputRead("ef", 6, True, None)
