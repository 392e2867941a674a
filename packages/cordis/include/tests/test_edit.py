"""What a user's patch file looks like after a change was stored in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from dsh_cordis_include import (
    IncludeError,
    PatchFileStore,
    apply_patches,
    read_patch_file,
    remove_row_from_file,
)
from dsh_cordis_loader import Expr, Row, RowChange, read_yaml, row_fields
from hypothesis import example, given
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio

FILE = """\
# mine
- id: a        # trailing
  config:
    url: !expr "coalesce(env.X, 'y')"   # why
    size: 010
    word: 'off'
    list: [1, 2]
  # off for now
  disabled: true

# what I added
- insert:
    - id: hello
      name: ./hello.py   # beside
    - {id: x, name: y}
# end
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "cordis.patch.yml"
    file.write_text(FILE)
    return file


def update(row_id: str, **fields: object) -> RowChange:
    return RowChange(kind="update", row_id=row_id, row=Row(id=row_id, name="z"), fields=fields)


def create(parent: str | None = None, **fields: object) -> RowChange:
    row = Row(id=str(fields["id"]), name="z", config=fields.get("config"))
    return RowChange(kind="create", row_id=row.id, row=row, fields=fields, parent=parent)


def remove(row_id: str) -> RowChange:
    return RowChange(kind="remove", row_id=row_id, row=None)


async def test_an_update_changes_the_entry_of_that_id_and_no_other_byte(file: Path):
    config = {"url": Expr("coalesce(env.X, 'y')"), "size": 5, "word": "off", "list": [1, 2]}
    await PatchFileStore(file).save(update("a", config=config))
    assert file.read_text() == FILE.replace("010", "5")


async def test_text_number_and_expression_keep_their_kind(file: Path):
    config = {"url": "010", "size": Expr("env.N"), "word": 5, "list": [True, None, "true"]}
    await PatchFileStore(file).save(update("a", config=config))
    assert read_patch_file(file)[0].fields["config"] == config


async def test_comments_below_a_changed_value_stay_where_they_were(file: Path):
    await PatchFileStore(file).save(update("a", config={"url": "u", "more": {"deep": [1]}}))
    text = file.read_text()
    assert "  # off for now\n  disabled: true\n" in text
    assert "- id: a        # trailing\n" in text
    assert text.endswith(FILE[FILE.index("# what I added") :])
    await PatchFileStore(file).save(update("a", config={"other": 1}))
    assert "    other: 1\n  # off for now\n  disabled: true\n" in file.read_text()


async def test_a_field_taken_away_is_reset(file: Path):
    await PatchFileStore(file).save(update("a", disabled=None))
    assert file.read_text() == FILE.replace("disabled: true", "disabled: null")


async def test_an_update_of_a_row_without_entry_gets_a_new_one(file: Path):
    await PatchFileStore(file).save(update("b", disabled=True))
    assert file.read_text() == FILE.replace("# end\n", "- id: b\n  disabled: true\n# end\n")


async def test_an_update_of_an_inserted_row_goes_into_the_row(file: Path):
    await PatchFileStore(file).save(update("x", disabled=True, config={"a": [1]}))
    changed = read_patch_file(file)[1]
    assert changed.insert is not None
    assert row_fields(changed.insert[1]) == {
        "id": "x",
        "name": "y",
        "disabled": True,
        "config": {"a": [1]},
    }
    await PatchFileStore(file).save(update("x", disabled=None, config=None))
    assert file.read_text() == FILE


async def test_a_created_row_is_inserted_at_the_top_or_into_a_group(file: Path):
    store = PatchFileStore(file)
    await store.save(create(id="n", name="z", config={"a": [1, {"b": "x: y"}]}))
    await store.save(create("g", id="m", name="z"))
    added = (
        "- insert:\n    - id: n\n      name: z\n      config:\n        a:\n          - 1\n"
        "          - b: 'x: y'\n- id: g\n  insert:\n    - id: m\n      name: z\n"
    )
    assert file.read_text() == FILE.replace("# end\n", added + "# end\n")


async def test_a_removed_row_is_taken_out_if_the_file_inserted_it_and_else_switched_off(
    file: Path,
):
    store = PatchFileStore(file)
    await store.save(remove("x"))
    assert file.read_text() == FILE.replace("    - {id: x, name: y}\n", "")
    await store.save(remove("hello"))
    assert "insert" not in file.read_text()
    await store.save(remove("b"))
    assert "  disabled: true\n- id: b\n  disabled: true\n\n# what I added\n" in file.read_text()


async def test_a_file_that_is_not_there_is_made(tmp_path: Path):
    file = tmp_path / "deep" / "cordis.patch.yml"
    await PatchFileStore(file).save(create(id="n", name="z"))
    assert file.read_text() == "- insert:\n    - id: n\n      name: z\n"
    assert not Path(f"{file}.last-good").exists()


async def test_the_last_text_is_kept(file: Path):
    await PatchFileStore(file).save(update("b", disabled=True))
    assert Path(f"{file}.last-good").read_text() == FILE


@pytest.mark.parametrize("text", ["a: 'x", "- a\n\t- b", "a: 1", "", "# nothing\n", "- {id: 5}"])
async def test_a_file_that_cannot_be_used_is_left_alone(file: Path, text: str):
    file.write_text(text)
    with pytest.raises(IncludeError):
        await PatchFileStore(file).save(update("b", disabled=True))
    assert file.read_text() == text
    assert not Path(f"{file}.last-good").exists()


async def test_a_result_that_is_refused_is_not_written(file: Path):
    def refuse(data: bytes) -> None:
        assert b"id: b" in data
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await PatchFileStore(file, check=refuse).save(update("b", disabled=True))
    with pytest.raises(IncludeError, match="`disabled` must be true"):
        await PatchFileStore(file).save(update("b", disabled="maybe"))
    assert file.read_text() == FILE


async def test_a_move_cannot_be_stored_in_a_patch_file(file: Path):
    change = RowChange(kind="update", row_id="a", row=Row(id="a", name="z"), parent="g", moved=True)
    with pytest.raises(IncludeError, match="moved to another group"):
        await PatchFileStore(file).save(change)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[]\n", "- id: b\n  disabled: true\n"),
        ("# c\n[]  # none\n# d\n", "# c\n# none\n- id: b\n  disabled: true\n# d\n"),
        ("[{id: a}]\n", None),
        ("- id: a", "- id: a\n- id: b\n  disabled: true\n"),
        ("---\n- id: a\n...\n", "---\n- id: a\n- id: b\n  disabled: true\n...\n"),
        ("  - id: a\n", "  - id: a\n  - id: b\n    disabled: true\n"),
        ("- id: a\r\n", "- id: a\r\n- id: b\r\n  disabled: true\r\n"),
        ("-\n  id: a\n", "-\n  id: a\n- id: b\n  disabled: true\n"),
        ("\ufeff- id: a\n", "\ufeff- id: a\n- id: b\n  disabled: true\n"),
    ],
)
async def test_files_of_any_style_can_be_added_to(file: Path, before: str, after: str | None):
    file.write_bytes(before.encode())
    await PatchFileStore(file).save(update("b", disabled=True))
    if after is not None:
        assert file.read_bytes().decode() == after
    assert [patch.id for patch in read_patch_file(file)][-1] == "b"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- id: a\r\n  disabled: true\r\n", "- id: a\r\n  disabled: false\r\n"),
        ("  -   id: a\n      disabled: true\n", "  -   id: a\n      disabled: false\n"),
        ("-\n  id: a\n  disabled: true\n", None),
        ("[{id: a, disabled: true}]\n", "[{id: a, disabled: false}]\n"),
        ("- {id: a, disabled: true}  # c\n", "- {id: a, disabled: false} # c\n"),
        ("\ufeff- id: a\n  disabled: true\n", "\ufeff- id: a\n  disabled: false\n"),
        ("- id: a\n  disabled: true\n  inject:\n  - s\n", None),
    ],
)
async def test_files_of_any_style_can_be_changed(file: Path, before: str, after: str | None):
    file.write_bytes(before.encode())
    await PatchFileStore(file).save(update("a", disabled=False))
    if after is not None:
        assert file.read_bytes().decode() == after
    assert read_patch_file(file)[0].fields["disabled"] is False


async def test_lists_stay_as_far_to_the_right_as_they_were(file: Path):
    file.write_text("- insert:\n  - id: a\n    name: z\n")
    await PatchFileStore(file).save(update("a", inject=["s"]))
    assert file.read_text() == "- insert:\n  - id: a\n    name: z\n    inject:\n    - s\n"


async def test_a_link_to_the_file_stays_a_link(file: Path, tmp_path: Path):
    link = tmp_path / "link.yml"
    link.symlink_to(file)
    await PatchFileStore(link).save(update("b", disabled=True))
    assert link.is_symlink()
    assert "id: b" in file.read_text()


def test_taking_a_row_out_takes_its_patches_too(file: Path):
    file.write_text(FILE + "- id: hello\n  disabled: true\n")
    assert remove_row_from_file(file, "hello")
    assert "hello" not in file.read_text()
    assert remove_row_from_file(file, "x")
    assert remove_row_from_file(file, "a")
    assert file.read_text() == "# mine\n[]\n\n# what I added\n# end\n"
    assert not remove_row_from_file(file, "a")
    assert not remove_row_from_file(file.with_name("none.yml"), "a")


def test_a_row_without_an_id_is_taken_out_by_the_one_that_its_place_gives_it(file: Path):
    file.write_text(
        "- insert:\n    - name: kept\n    - {name: 'cordis:group', config: [{name: gone}]}\n"
    )
    (_, group) = apply_patches((), read_patch_file(file), warn=lambda *_: None)
    assert group.children is not None
    assert remove_row_from_file(file, group.children[0].id)
    assert "kept" in file.read_text()
    assert "gone" not in file.read_text()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["off", "010", "1e3", "~", "", "a: b", "# no", "- x", "0o17", "é\n\nx", " s"])
    | st.text("ab:#-'\"{}[]\n !&*?|>%@,\\\t0", max_size=8)
    | st.sampled_from([Expr("env.X"), Expr("coalesce(env.get('A'), 'b: c')")]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc_- :#", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
CONFIGS = st.dictionaries(st.sampled_from(["url", "size", "word", "list", "new"]), VALUES)


@given(st.lists(CONFIGS, min_size=1, max_size=3))
@example([{"url": None}, {"url": [{}, None, None]}])  # which the library writes as one word
def test_whatever_is_stored_reads_back_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, configs: list[Mapping[str, object]]
):
    file = tmp_path_factory.mktemp("edit") / "cordis.patch.yml"
    file.write_text(FILE)
    others = read_patch_file(file)[1:]
    store = PatchFileStore(file)
    for config in configs:
        store._save(update("a", config=config))  # pyright: ignore[reportPrivateUsage]
        first, *rest = read_patch_file(file)
        assert first.fields["config"] == config
        assert first.fields["disabled"] is True
        assert rest == list(others)
        assert "  # off for now\n" in file.read_text()


@given(VALUES)
def test_a_written_row_reads_back_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, config: object
):
    file = tmp_path_factory.mktemp("edit") / "cordis.patch.yml"
    PatchFileStore(file)._save(create(id="n", name="z", config=config))  # pyright: ignore[reportPrivateUsage]
    (row,) = apply_patches((), read_patch_file(file), warn=lambda layer, text: None)
    assert row.config == config
    assert isinstance(read_yaml(file.read_bytes(), where="f"), list)


def test_a_file_on_a_readonly_place_is_left_alone_and_named(file: Path, tmp_path: Path):
    code = f"""
import asyncio
from pathlib import Path
from dsh_cordis_include import PatchFileStore
from dsh_cordis_loader import RowChange
change = RowChange(kind="remove", row_id="b", row=None)
try:
    asyncio.run(PatchFileStore(Path({str(file)!r})).save(change))
except Exception as error:
    print(error.code, error)
"""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bubblewrap is not installed")
    seal = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    done = subprocess.run(
        [*seal, sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and not done.stdout:
        pytest.skip(f"no sandbox here: {done.stderr}")
    assert done.stdout == f"CONFIG_READONLY cannot overwrite readonly config {file}\n"
    assert file.read_text() == FILE
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
