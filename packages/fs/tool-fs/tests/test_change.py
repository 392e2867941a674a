from __future__ import annotations

import asyncio
import os
import stat

import msgspec
import pytest
from dsh_lossless_json import thaw

pytestmark = pytest.mark.anyio


def diffs(outcome):
    return thaw(outcome.meta["diffs"])


async def test_write_then_edit_needs_no_read(kit):
    path = kit.root / "new/a.txt"
    text = await kit.text("write", file_path="new/a.txt", content="one\n")
    assert text == f"Created {path}."
    text = await kit.text("edit", file_path="new/a.txt", old_string="one", new_string="two")
    assert text == f"Edited {path}."
    assert await kit.text("write", file_path="new/a.txt", content="3\n") == f"Updated {path}."
    assert path.read_text() == "3\n"


async def test_many_created_files_can_be_edited_at_once(kit):
    # The version that a creation reports is the file's, not that of a moment before.
    for n in range(50):
        await kit.value("write", file_path=f"{n}", content="a")
        assert await kit.code("edit", file_path=f"{n}", old_string="a", new_string="b") is None


async def test_a_windowed_read_authorises_an_edit_elsewhere(kit):
    path = kit.file("a.txt", "one\ntwo\nthree\n")
    await kit.value("read", file_path="a.txt", limit=1)
    await kit.value("edit", file_path="a.txt", old_string="three", new_string="3")
    assert path.read_text() == "one\ntwo\n3\n"


async def test_unread_files_are_not_changed_and_the_model_hears_what_to_do(kit):
    path = kit.file("a.txt", "one")
    text = await kit.text("write", file_path="a.txt", content="two")
    assert text.startswith("Error: ")
    assert text.endswith("was not read; read it, then repeat the change")
    assert await kit.code("write", file_path="a.txt", content="two") == "FS_NOT_OBSERVED"
    text = await kit.text("edit", file_path="a.txt", old_string="one", new_string="two")
    assert text.endswith("was not read in this session; read it, then repeat the change")
    assert path.read_text() == "one"


async def test_an_outside_change_is_stale_until_read_again(kit):
    path = kit.file("a.txt", "one two")
    await kit.value("read", file_path="a.txt")
    path.write_text("one three")
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert await kit.code("edit", **edit) == "FS_STALE_VERSION"
    assert (await kit.text("edit", **edit)).endswith("; read it again, then repeat the change")
    assert await kit.code("write", file_path="a.txt", content="x") == "FS_STALE_VERSION"
    await kit.value("read", file_path="a.txt")
    assert await kit.code("edit", **edit) is None
    assert path.read_text() == "1 three"


async def test_staleness_is_seen_through_every_name_of_a_file(kit):
    path = kit.file("real.conf", "one")
    (kit.root / "conf").symlink_to("real.conf")
    await kit.value("read", file_path="conf")
    await kit.value("edit", file_path="real.conf", old_string="one", new_string="two")
    await kit.value("edit", file_path="conf", old_string="two", new_string="three")
    path.write_text("outside")
    for name in ("conf", "real.conf"):
        edit = {"file_path": name, "old_string": "outside", "new_string": "x"}
        assert await kit.code("edit", **edit) == "FS_STALE_VERSION"


async def test_a_deleted_file_is_stale_then_absent_then_created_again(kit):
    path = kit.file("a.txt", "one")
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    await kit.value("read", file_path="a.txt")
    path.unlink()
    assert await kit.code("write", file_path="a.txt", content="x") == "FS_STALE_VERSION"
    assert await kit.code("edit", **edit) == "FS_STALE_VERSION"
    assert await kit.code("read", file_path="a.txt") == "FS_NOT_FOUND"
    assert await kit.code("edit", **edit) == "FS_NOT_FOUND"
    assert await kit.code("write", file_path="a.txt", content="x") is None
    assert path.read_text() == "x"


async def test_what_one_agent_read_gives_another_nothing(kit):
    kit.file("a.txt", "one")
    await kit.value("read", file_path="a.txt")
    other = kit.new_agent()
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    assert await kit.code("edit", other, **edit) == "FS_NOT_OBSERVED"
    assert await kit.code("edit", **edit) is None


async def test_without_the_policy_anything_goes_but_an_edit_of_nothing(mount):
    async with mount(policy=False) as kit:
        path = kit.file("a.txt", "one")
        assert await kit.code("write", file_path="a.txt", content="two") is None
        assert path.read_text() == "two"
        edit = {"file_path": "none", "old_string": "one", "new_string": "1"}
        assert await kit.code("edit", **edit) == "FS_STALE_VERSION"


async def test_edit_arguments_that_change_nothing_are_refused(kit):
    kit.file("a.txt", "one")
    same = {"file_path": "a.txt", "old_string": "one", "new_string": "one"}
    assert await kit.text("edit", **same) == (
        "Error: invalid arguments: new_string must differ from old_string"
    )
    empty = {"file_path": "a.txt", "old_string": "", "new_string": "x"}
    assert await kit.code("edit", **empty) == "INVALID_ARGS"


async def test_a_needle_must_name_one_place(kit):
    path = kit.file("a.txt", "aXbXc")
    await kit.value("read", file_path="a.txt")
    edit = {"file_path": "a.txt", "old_string": "X", "new_string": "Y"}
    assert await kit.code("edit", **edit) == "FS_AMBIGUOUS_EDIT"
    assert await kit.code("edit", **{**edit, "old_string": "Z"}) == "FS_EDIT_NOT_FOUND"
    assert path.read_text() == "aXbXc"
    assert await kit.code("edit", **edit, replace_all=True) is None
    assert path.read_text() == "aYbYc"


# -- bytes on the disk -----------------------------------------------------------------------


async def test_edits_keep_mark_and_line_endings_and_show_one_changed_line(kit):
    path = kit.file("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await kit.value("read", file_path="a.txt")
    first = {"old_string": "two", "new_string": "2"}
    outcome = await kit.outcome("edit", file_path="a.txt", **first)
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\n2\r\nthree\r\n"
    assert diffs(outcome) == [
        {"path": str(path), "oldText": "one\ntwo\nthree\n", "newText": "one\n2\nthree\n"}
    ]
    over_lines = {"old_string": "one\n2", "new_string": "1\n2\n2a"}
    await kit.value("edit", file_path="a.txt", **over_lines)
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2a\r\nthree\r\n"


async def test_a_write_is_exact_and_says_what_it_did_to_the_convention(kit):
    path = kit.file("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    await kit.value("read", file_path="a.txt")
    text = await kit.text("write", file_path="a.txt", content="one\ntwo\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert text == (
        f"Updated {path}. Its byte order mark is gone. Its line endings changed from crlf to lf."
    )
    text = await kit.text("write", file_path="a.txt", content="one\nthree\n")
    assert text == f"Updated {path}."


@pytest.mark.parametrize("change", ["write", "edit"])
async def test_mode_and_link_survive_a_change(kit, change):
    script, real = kit.file("run.sh", "one"), kit.file("real.conf", "one")
    script.chmod(0o755)
    real.chmod(0o600)
    (kit.root / "conf").symlink_to("real.conf")
    args = {"content": "two"} if change == "write" else {"old_string": "one", "new_string": "two"}
    for name in ("run.sh", "conf"):
        await kit.value("read", file_path=name)
        await kit.value(change, file_path=name, **args)
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert (kit.root / "conf").is_symlink()
    assert real.read_text() == "two"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


LITERALS = ["$&", "$$", "$1", "$`", "\\1", "\\g<0>", "\\n", "%s", "{0}", "\\\\", "\\u0041", "&amp;"]


@pytest.mark.parametrize("replace_all", [False, True])
@pytest.mark.parametrize("text", LITERALS)
async def test_replacement_text_is_literal(kit, text, replace_all):
    path = kit.file("a.txt", "aXb\n")
    await kit.value("read", file_path="a.txt")
    edit = {"file_path": "a.txt", "old_string": "X", "new_string": text}
    await kit.value("edit", **edit, replace_all=replace_all)
    assert path.read_bytes() == f"a{text}b\n".encode()


@pytest.mark.parametrize("text", LITERALS)
async def test_the_text_to_replace_is_literal(kit, text):
    path = kit.file("a.txt", f"a{text}b.*\n")
    await kit.value("read", file_path="a.txt")
    await kit.value("edit", file_path="a.txt", old_string=text, new_string="X")
    assert path.read_text() == "aXb.*\n"


NAMES = [
    "app/[id]/page.tsx",
    "a b/ü.txt",
    "-n.txt",
    "x{1,2}.py",
    "(group)/*.md",
    "line\nbreak.txt",
    "~/$HOME",
    "a..b/...",
    "%2e%2e",
    " padded ",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_path_is_a_path_whatever_it_looks_like(kit, name):
    kit.file("app/i/page.tsx", "beside")
    await kit.value("write", file_path=name, content="one\n")
    assert "1: one\n" in await kit.text("read", file_path=name)
    await kit.value("edit", file_path=name, old_string="one", new_string="two")
    files = sorted(path for path in kit.root.rglob("*") if path.is_file())
    assert files == sorted([kit.root / "app/i/page.tsx", kit.root / name])
    assert (kit.root / name).read_text() == "two\n"


async def test_what_is_no_file_is_neither_written_nor_edited(kit):
    os.mkfifo(kit.root / "pipe")
    (kit.root / "dir").mkdir()
    kit.file("file", "x")
    for name in ("pipe", "dir", "/dev/null"):
        args = {"file_path": name, "content": "x"}
        assert await kit.code("write", **args) == "FS_NOT_REGULAR_FILE"
    assert await kit.code("write", file_path="file/below", content="x") == "FS_NOT_FOUND"
    assert stat.S_ISFIFO((kit.root / "pipe").stat().st_mode)


async def test_text_that_no_file_can_hold_is_refused(kit):
    for content in ("a\ud800b", "a\0b"):
        args = {"file_path": "a.txt", "content": content}
        assert await kit.code("write", **args) == "INVALID_ARGS"
    assert list(kit.root.iterdir()) == []


async def test_an_aborted_write_leaves_nothing(kit):
    kit.abort.abort()
    code = await kit.code("write", file_path="new/a.txt", content="x")
    assert code == "ABORTED_BEFORE_DISPATCH"
    assert list(kit.root.iterdir()) == []


# -- together --------------------------------------------------------------------------------


async def test_edits_of_one_file_all_land(kit):
    path = kit.file("a.txt", "".join(f"<{n}>\n" for n in range(30)))
    await kit.value("read", file_path="a.txt")
    # Each knows the file as of its own start, so of any that overlap one wins; what was refused
    # is repeated after a read, as a model would.
    waiting = list(range(30))
    while waiting:
        codes = await asyncio.gather(
            *(
                kit.code("edit", file_path="a.txt", old_string=f"<{n}>", new_string=f"[{n}]")
                for n in waiting
            )
        )
        refused = [n for n, code in zip(waiting, codes, strict=True) if code is not None]
        assert set(codes) <= {None, "FS_STALE_VERSION"}
        assert len(refused) < len(waiting)
        waiting = refused
        await kit.value("read", file_path="a.txt")
    assert path.read_text() == "".join(f"[{n}]\n" for n in range(30))


async def test_five_hundred_files_at_once(kit):
    names = [f"d{n % 20}/f{n}" for n in range(500)]
    writes = (kit.code("write", file_path=name, content=name) for name in names)
    assert set(await asyncio.gather(*writes)) == {None}
    reads = await asyncio.gather(*(kit.text("read", file_path=name) for name in names))
    assert all(f"1: {name}\n" in text for name, text in zip(names, reads, strict=True))
    assert len([path for path in kit.root.rglob("*") if path.is_file()]) == 500


# -- what the log gets -----------------------------------------------------------------------


async def test_a_created_file_is_all_new(kit):
    outcome = await kit.outcome("write", file_path="a.txt", content="one\n")
    path = str(kit.root / "a.txt")
    assert diffs(outcome) == [{"path": path, "oldText": None, "newText": "one\n"}]


async def test_a_change_is_shown_by_its_places(kit):
    lines = [f"{n}\n" for n in range(40)]
    kit.file("a.txt", "".join(lines))
    await kit.value("read", file_path="a.txt")
    lines[5], lines[30] = "five\n", "thirty\n"
    outcome = await kit.outcome("write", file_path="a.txt", content="".join(lines))
    first, second = diffs(outcome)
    assert first["oldText"] == "2\n3\n4\n5\n6\n7\n8\n"
    assert first["newText"] == "2\n3\n4\nfive\n6\n7\n8\n"
    assert second["oldText"] == "27\n28\n29\n30\n31\n32\n33\n"


async def test_a_large_change_does_not_swell_the_log(kit):
    kit.file("line", "x" * 3_000_000 + "1")
    kit.file("lines", "".join(f"{n}\n" for n in range(300_000)))
    kit.file("over", "x" * 11_000_000)
    calls = [
        ("write", "new", {"content": "y" * 3_000_000}),
        ("edit", "line", {"old_string": "1", "new_string": "2"}),
        ("edit", "lines", {"old_string": "9\n", "new_string": "nine\n", "replace_all": True}),
        ("write", "over", {"content": "small"}),
    ]
    for tool, name, args in calls:
        if tool == "edit" or name == "over":
            await kit.value("read", file_path=name, limit=1)
        outcome = await kit.outcome(tool, file_path=name, **args)
        assert not outcome.is_error, outcome
        assert outcome.meta["truncated"] is True
        assert len(msgspec.json.encode(thaw(outcome.meta))) < 80_000


async def test_an_overwrite_without_a_known_before_is_no_creation(kit):
    kit.file("over", "x" * 11_000_000)
    await kit.value("read", file_path="over", limit=1)
    outcome = await kit.outcome("write", file_path="over", content="small")
    assert diffs(outcome) == []
    assert outcome.value["operation"] == "update"
    assert outcome.value["before"] is None
