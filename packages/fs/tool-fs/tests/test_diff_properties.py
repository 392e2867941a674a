from __future__ import annotations

from difflib import SequenceMatcher

from dsh_tool_fs._diff import CONTEXT_LINES, MAX_CHARACTERS, change
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "d"]), max_size=30).map("".join)


@given(TEXT, TEXT)
def test_hunks_are_the_places_of_both_texts_in_order(before, after):
    shown = change("f", before, after)
    assert not shown.truncated
    assert bool(shown.diffs) == (before != after)
    at_before = at_after = 0
    for hunk in shown.diffs:
        assert hunk.old_text is not None
        old_at = before.index(hunk.old_text, at_before)
        new_at = after.index(hunk.new_text, at_after)
        at_before, at_after = old_at + len(hunk.old_text), new_at + len(hunk.new_text)


EDITS = st.dictionaries(st.integers(0, 39), st.sampled_from(["", "x\n", "x\ny\n", "x"]))


@given(EDITS, st.booleans())
def test_applying_the_hunks_gives_the_new_text(edits, ended):
    before = [f"{n}\n" for n in range(40)]
    before[-1] = "39\n" if ended else "39"
    after = "".join(edits.get(n, line) for n, line in enumerate(before))
    done, rest = "", "".join(before)
    for hunk in change("f", rest, after).diffs:
        # Every line is another, so a hunk has one place.
        head, old, rest = rest.partition(hunk.old_text or "")
        assert old
        done += head + hunk.new_text
    assert done + rest == after


@given(st.integers(0, 39), st.integers(0, 39))
def test_a_hunk_has_three_lines_of_context(first, second):
    before = [f"{n}\n" for n in range(40)]
    after = list(before)
    after[first], after[second] = "x\n", "x\n"
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    expected = [
        ("".join(before[g[0][1] : g[-1][2]]), "".join(after[g[0][3] : g[-1][4]]))
        for g in matcher.get_grouped_opcodes(CONTEXT_LINES)
    ]
    shown = change("f", "".join(before), "".join(after))
    assert [(hunk.old_text, hunk.new_text) for hunk in shown.diffs] == expected


@given(TEXT)
def test_a_created_file_is_shown_whole(after):
    [hunk] = change("f", None, after).diffs
    assert (hunk.old_text, hunk.new_text) == (None, after)


def test_what_is_shown_is_bounded_whatever_changed():
    many = "".join(f"{n}\n" for n in range(200_000))
    for before, after in [
        (None, "x" * 10**6),
        ("x" * 10**6, "x" * 10**6 + "y"),
        (many, many.replace("9", "nine")),
        (many, ""),
        ("", many),
    ]:
        shown = change("f", before, after)
        total = sum(len(hunk.old_text or "") + len(hunk.new_text) for hunk in shown.diffs)
        assert 0 < total <= MAX_CHARACTERS
        assert shown.truncated
