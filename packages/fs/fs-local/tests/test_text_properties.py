from __future__ import annotations

from dsh_fs import FsError, TextEdit
from dsh_fs_local._text import apply_edit, decode_text
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text("abX", max_size=3)
LINES = st.lists(st.tuples(TEXT, st.sampled_from(["\n", "\r\n", "\r", ""])))
ENDED = st.lists(st.tuples(TEXT, st.sampled_from(["\n", "\r\n"])))


def written(lines) -> str:
    return "".join(text + end for text, end in lines)


@given(ENDED, st.text("abX\n", min_size=1, max_size=4), st.text("abY\n", max_size=4), st.booleans())
def test_an_edit_equals_replacing_in_the_normalized_text(lines, old, new, replace_all):
    file = decode_text(written(lines).encode(), "f")
    normalized = file.normalized()
    try:
        after = apply_edit(file, TextEdit(old=old, new=new, replace_all=replace_all), "f")
    except FsError:
        first = normalized.find(old)
        assert first < 0 or (normalized.find(old, first + 1) >= 0 and not replace_all)
        return
    assert after.normalized() == normalized.replace(old, new)


@given(LINES, st.integers(0, 5))
def test_text_outside_the_edit_keeps_every_byte(lines, index):
    before, after = written(lines[:index]), written(lines[index:])
    file = decode_text(f"{before}<needle>{after}".encode(), "f")
    edited = apply_edit(file, TextEdit(old="<needle>", new="N"), "f")
    assert edited.text == f"{before}N{after}"
