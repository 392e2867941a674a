"""Replacing files."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from dsh_atomic_write import write_file_atomic


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def umask() -> int:
    current = os.umask(0o027)
    yield 0o027
    os.umask(current)


def test_text_is_written_as_utf_8_with_its_line_endings(tmp_path: Path) -> None:
    write_file_atomic(tmp_path / "a", "é\r\n\n")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\r\n\n"
    write_file_atomic(str(tmp_path / "a"), b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"


def test_a_new_file_has_the_umasks_mode(tmp_path: Path, umask: int) -> None:
    write_file_atomic(tmp_path / "a", "x")
    assert mode_of(tmp_path / "a") == 0o666 & ~umask


def test_a_given_mode_is_exact_whatever_the_umask_and_the_old_file(
    tmp_path: Path, umask: int
) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o644)
    write_file_atomic(tmp_path / "a", "new", mode=0o600)
    assert mode_of(tmp_path / "a") == 0o600
    write_file_atomic(tmp_path / "a", "new", mode=0o666)
    assert mode_of(tmp_path / "a") == 0o666


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o600)
    write_file_atomic(tmp_path / "a", "new")
    assert mode_of(tmp_path / "a") == 0o600


def test_missing_parents_are_made_private(tmp_path: Path) -> None:
    write_file_atomic(tmp_path / "x" / "y" / "a", "1")
    assert [mode_of(tmp_path / "x"), mode_of(tmp_path / "x" / "y")] == [0o700, 0o700]
    write_file_atomic(tmp_path / "z" / "a", "1", dir_mode=0o750)
    assert mode_of(tmp_path / "z") == 0o750


def test_a_link_is_replaced_and_its_target_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_file_atomic(tmp_path / "link", "new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_text() == "new"
    assert (tmp_path / "target").read_text() == "old"


def test_a_failed_rename_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "a" / "content").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_file_atomic(tmp_path / "a", "x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_text_that_is_no_utf_8_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_file_atomic(tmp_path / "a", "half \ud83d")
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["old"]


def test_a_reader_sees_the_old_content_or_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "a"
    contents = [bytes([letter]) * 200_000 for letter in b"abc"]
    write_file_atomic(file, contents[0])
    done = threading.Event()
    torn: list[int] = []

    def read() -> None:
        while not done.is_set():
            if file.read_bytes() not in contents:
                torn.append(1)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(30):
        write_file_atomic(file, contents[turn % 3])
    done.set()
    reader.join()
    assert torn == []
