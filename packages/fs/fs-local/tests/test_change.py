from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys

import pytest
from dsh_cordis import AbortController
from dsh_fs import CreateIfAbsent, FsError, ReplaceIfVersion, TextEdit
from dsh_fs_local._change import EDIT_MAX_BYTES

pytestmark = pytest.mark.anyio


async def code_of(awaitable) -> str:
    with pytest.raises(FsError) as caught:
        await awaitable
    return caught.value.code


async def test_overwriting_keeps_the_mode_and_says_what_changed(place):
    file = place.root / "run.sh"
    file.write_text("one\n")
    file.chmod(0o755)
    result = await place.files.write_text(await place.target("run.sh"), "two\n")
    assert (result.operation, result.before, result.after) == ("update", "one\n", "two\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


async def test_writing_through_a_link_changes_its_target(place):
    (place.root / "real.conf").write_text("one")
    (place.root / "real.conf").chmod(0o600)
    (place.root / "conf").symlink_to("real.conf")
    result = await place.files.write_text(await place.target("conf"), "two")
    assert (place.root / "conf").is_symlink()
    assert (place.root / "real.conf").read_text() == "two"
    assert stat.S_IMODE((place.root / "real.conf").stat().st_mode) == 0o600
    status = await place.files.stat(await place.target("real.conf"))
    assert status is not None
    assert status.version == result.version


async def test_writing_through_a_dangling_link_creates_its_target(place):
    (place.root / "link").symlink_to("later/target")
    await place.files.write_text(await place.target("link"), "x", expected=CreateIfAbsent())
    assert (place.root / "later/target").read_text() == "x"


async def test_create_if_absent_loses_to_a_competitor_and_keeps_it(place):
    target = await place.target("file")
    (place.root / "file").write_text("theirs")
    assert (
        await code_of(place.files.write_text(target, "ours", expected=CreateIfAbsent()))
        == "FS_NOT_OBSERVED"
    )
    assert (place.root / "file").read_text() == "theirs"


async def test_create_if_absent_over_a_directory_is_no_regular_file(place):
    (place.root / "dir").mkdir()
    target = await place.target("dir")
    assert (
        await code_of(place.files.write_text(target, "x", expected=CreateIfAbsent()))
        == "FS_NOT_REGULAR_FILE"
    )


async def test_a_stale_version_is_refused_and_a_missing_file_not_recreated(place):
    target = await place.target("file")
    first = await place.files.write_text(target, "one")
    (place.root / "file").write_text("changed outside")
    expected = ReplaceIfVersion(first.version)
    stale = place.files.write_text(target, "two", expected=expected)
    assert await code_of(stale) == "FS_STALE_VERSION"
    (place.root / "file").unlink()
    gone = place.files.write_text(target, "two", expected=expected)
    assert await code_of(gone) == "FS_STALE_VERSION"
    assert not (place.root / "file").exists()


async def test_of_two_guarded_writers_one_wins_and_one_is_stale(place):
    target = await place.target("file")
    first = await place.files.write_text(target, "0")
    expected = ReplaceIfVersion(first.version)
    results = await asyncio.gather(
        *(place.files.write_text(target, text, expected=expected) for text in ("a", "b")),
        return_exceptions=True,
    )
    codes = [r.code for r in results if isinstance(r, FsError)]
    assert codes == ["FS_STALE_VERSION"]


class AtTheLastMoment:
    """A signal that acts when the new content is staged and only its name is missing."""

    def __init__(self, root, action):
        self.root = root
        self.action = action

    @property
    def aborted(self) -> bool:
        return bool(list(self.root.glob(".dsh-*"))) and self.action()


async def test_a_competitor_at_the_last_moment_is_kept(place):
    def create() -> bool:
        (place.root / "f").write_text("theirs")
        return False

    write = place.files.write_text(
        await place.target("f"),
        "ours",
        expected=CreateIfAbsent(),
        signal=AtTheLastMoment(place.root, create),
    )
    assert await code_of(write) == "FS_NOT_OBSERVED"
    assert (place.root / "f").read_text() == "theirs"


async def test_a_competing_dangling_link_is_no_regular_file(place):
    def create() -> bool:
        (place.root / "f").symlink_to("nowhere")
        return False

    write = place.files.write_text(
        await place.target("f"),
        "ours",
        expected=CreateIfAbsent(),
        signal=AtTheLastMoment(place.root, create),
    )
    assert await code_of(write) == "FS_NOT_REGULAR_FILE"
    assert not (place.root / "nowhere").exists()


@pytest.mark.parametrize("guarded", [False, True])
async def test_a_change_at_the_last_moment_is_not_undone_by_an_edit(place, guarded):
    target = await place.target("f")
    first = await place.files.write_text(target, "one")

    def change() -> bool:
        (place.root / "f").write_text("one, and theirs")
        return False

    edit = place.files.edit_text(
        target,
        TextEdit(old="one", new="1"),
        expected=ReplaceIfVersion(first.version) if guarded else None,
        signal=AtTheLastMoment(place.root, change),
    )
    assert await code_of(edit) == "FS_STALE_VERSION"
    assert (place.root / "f").read_text() == "one, and theirs"


async def test_a_change_at_the_last_moment_makes_a_guarded_write_stale(place):
    target = await place.target("f")
    first = await place.files.write_text(target, "one")

    def remove() -> bool:
        (place.root / "f").unlink(missing_ok=True)
        return False

    write = place.files.write_text(
        target,
        "two",
        expected=ReplaceIfVersion(first.version),
        signal=AtTheLastMoment(place.root, remove),
    )
    assert await code_of(write) == "FS_STALE_VERSION"
    assert list(place.root.iterdir()) == []


async def test_an_abort_at_the_last_moment_changes_nothing_and_leaves_nothing(place):
    (place.root / "f").write_text("one")
    signal = AtTheLastMoment(place.root, lambda: True)
    write = place.files.write_text(await place.target("f"), "two", signal=signal)
    assert await code_of(write) == "FS_ABORTED"
    assert [p.name for p in place.root.iterdir()] == ["f"]
    assert (place.root / "f").read_text() == "one"


async def test_changes_of_one_file_happen_in_the_order_of_their_calls(place):
    target = await place.target("f")
    texts = [str(n) for n in range(100)]
    results = await asyncio.gather(*(place.files.write_text(target, text) for text in texts))
    assert [result.before for result in results] == [None, *texts[:-1]]


async def test_reported_versions_are_those_of_the_disk(place):
    for n in range(20):
        target = await place.target(f"f{n}")
        versions = [
            (await place.files.write_text(target, "1", expected=CreateIfAbsent())).version,
            (await place.files.write_text(target, "2")).version,
            (await place.files.edit_text(target, TextEdit(old="2", new="3"))).version,
        ]
        status = await place.files.stat(target)
        assert status is not None
        assert versions[-1] == status.version
        assert len(set(versions)) == 3


async def test_a_created_file_has_the_version_that_was_reported(place):
    for n in range(50):
        target = await place.target(f"f{n}")
        result = await place.files.write_text(target, "1", expected=CreateIfAbsent())
        status = await place.files.stat(target)
        assert status is not None
        assert result.version == status.version


async def test_an_aborted_write_changes_nothing_and_leaves_nothing(place):
    controller = AbortController()
    controller.abort()
    write = place.files.write_text(await place.target("f"), "x", signal=controller.signal)
    assert await code_of(write) == "FS_ABORTED"
    assert list(place.root.iterdir()) == []


async def test_a_large_or_binary_prior_has_no_before(place):
    (place.root / "binary").write_bytes(b"\0\1")
    (place.root / "large").write_bytes(b"x" * 10_485_760)
    for name in ("binary", "large"):
        result = await place.files.write_text(await place.target(name), "text\n")
        assert (result.operation, result.before) == ("update", None)
    (place.root / "small").write_text("one")
    result = await place.files.write_text(await place.target("small"), "x" * 10_485_760)
    assert (result.operation, result.before) == ("update", None)


async def test_write_puts_exact_bytes_and_reports_conventions(place):
    (place.root / "f").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    result = await place.files.write_text(await place.target("f"), "a\nb\n")
    assert (place.root / "f").read_bytes() == b"a\nb\n"
    assert result.convention_before is not None
    assert result.convention_before.byte_order_mark
    assert result.convention_before.newlines == "crlf"
    assert result.convention_after.newlines == "lf"


# -- edits -----------------------------------------------------------------------------------


async def edited(place, data: bytes, old: str, new: str, *, replace_all: bool = False) -> bytes:
    (place.root / "f").write_bytes(data)
    edit = TextEdit(old=old, new=new, replace_all=replace_all)
    await place.files.edit_text(await place.target("f"), edit)
    return (place.root / "f").read_bytes()


async def test_an_edit_keeps_mark_and_line_endings(place):
    data = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    assert await edited(place, data, "two", "2") == b"\xef\xbb\xbfone\r\n2\r\nthree\r\n"


async def test_a_needle_over_lines_matches_and_its_replacement_gets_the_files_endings(place):
    data = b"\xef\xbb\xbfone\r\n2\r\nthree\r\n"
    assert await edited(place, data, "one\n2", "1\nzwei") == b"\xef\xbb\xbf1\r\nzwei\r\nthree\r\n"


async def test_mixed_endings_outside_the_edit_stay(place):
    data = b"a\r\nb\nc\r\nd\ne\n"
    assert await edited(place, data, "c\nd", "X") == b"a\r\nb\nX\ne\n"


async def test_a_match_that_begins_or_ends_at_a_line_break_takes_all_of_it(place):
    assert await edited(place, b"a\r\nb\r\nc\r\n", "\nb\n", "\n") == b"a\r\nc\r\n"


@pytest.mark.parametrize("replace_all", [False, True])
@pytest.mark.parametrize(
    "text", ["$&", "$$", "$1", "$`", "\\1", "\\g<0>", "\\n", "%s", "{0}", "\\\\", "\\"]
)
async def test_replacement_text_is_literal(place, text, replace_all):
    got = await edited(place, b"aXb\n", "X", text, replace_all=replace_all)
    assert got == f"a{text}b\n".encode()


async def test_replace_all_replaces_every_occurrence_once(place):
    assert await edited(place, b"aXXbX", "X", "XX", replace_all=True) == b"aXXXXbXX"


async def test_edit_refusals(place):
    target = await place.target("f")
    missing = place.files.edit_text(target, TextEdit(old="a", new="b"))
    assert await code_of(missing) == "FS_STALE_VERSION"
    (place.root / "f").write_text("aa")
    absent = place.files.edit_text(target, TextEdit(old="x", new="b"))
    assert await code_of(absent) == "FS_EDIT_NOT_FOUND"
    empty = place.files.edit_text(target, TextEdit(old="", new="b"))
    assert await code_of(empty) == "FS_EDIT_NOT_FOUND"
    twice = place.files.edit_text(target, TextEdit(old="a", new="b"))
    assert await code_of(twice) == "FS_AMBIGUOUS_EDIT"
    (place.root / "f").write_bytes(b"a" * 9000 + b"\0")
    nul = place.files.edit_text(target, TextEdit(old="x", new="b"))
    assert await code_of(nul) == "FS_NOT_TEXT"


async def test_a_stale_edit_is_stale_even_if_the_text_is_gone(place):
    target = await place.target("f")
    first = await place.files.write_text(target, "one")
    (place.root / "f").write_text("other")
    edit = place.files.edit_text(
        target, TextEdit(old="one", new="1"), expected=ReplaceIfVersion(first.version)
    )
    assert await code_of(edit) == "FS_STALE_VERSION"


async def test_places_that_overlap_are_two_places(place):
    (place.root / "f").write_text("aXaXa")
    edit = place.files.edit_text(await place.target("f"), TextEdit(old="aXa", new="b"))
    assert await code_of(edit) == "FS_AMBIGUOUS_EDIT"


async def test_half_a_character_is_refused(place):
    (place.root / "f").write_text("a")
    target = await place.target("f")
    assert await code_of(place.files.write_text(target, "\ud83d")) == "FS_NOT_TEXT"
    edit = place.files.edit_text(target, TextEdit(old="a", new="\ud83d"))
    assert await code_of(edit) == "FS_NOT_TEXT"
    assert (place.root / "f").read_text() == "a"


async def test_a_file_beyond_what_an_edit_may_hold_is_too_large(place):
    (place.root / "f").write_text("one")
    os.truncate(place.root / "f", EDIT_MAX_BYTES + 1)
    edit = place.files.edit_text(await place.target("f"), TextEdit(old="one", new="1"))
    assert await code_of(edit) == "FS_TOO_LARGE"


async def test_below_a_file_there_is_nothing(place):
    (place.root / "file").write_text("x")
    target = await place.target("file/below/deeper")
    assert await code_of(place.files.write_text(target, "x")) == "FS_NOT_FOUND"
    write = place.files.write_text(target, "x", expected=CreateIfAbsent())
    assert await code_of(write) == "FS_NOT_FOUND"


async def test_edit_keeps_the_mode(place):
    (place.root / "f").write_text("one")
    (place.root / "f").chmod(0o755)
    await place.files.edit_text(await place.target("f"), TextEdit(old="one", new="1"))
    assert stat.S_IMODE((place.root / "f").stat().st_mode) == 0o755


async def test_a_file_that_a_reader_holds_open_is_replaced_not_rewritten(place):
    (place.root / "f").write_text("old")
    with open(place.root / "f") as held:
        await place.files.write_text(await place.target("f"), "new")
        assert held.read() == "old"


READ_ONLY = """
import asyncio
from dsh_cordis import Context
from dsh_fs import FS, FsError
from dsh_fs_local import LocalFileSystem
async def main():
    async with Context() as ctx:
        await ctx.plugin(LocalFileSystem)
        files = ctx.get(FS)
        try:
            await files.write_text(await files.resolve("f", cwd="/ro"), "x")
        except FsError as error:
            print(error.code, error)
asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_a_read_only_directory_is_permission_denied(tmp_path):
    command = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(tmp_path), "/ro"]
    done = subprocess.run(
        [*command, sys.executable, "-c", READ_ONLY],
        capture_output=True,
        text=True,
        check=False,
    )
    if "bwrap:" in done.stderr:
        pytest.skip("bubblewrap cannot make namespaces here")
    assert done.stdout.startswith("FS_PERMISSION_DENIED"), done.stderr
    assert os.listdir(tmp_path) == []
