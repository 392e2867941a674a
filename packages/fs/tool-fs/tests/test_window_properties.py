from __future__ import annotations

from itertools import pairwise

from dsh_tool_fs._window import LineWindow
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.sampled_from("ab\n\r😀"), max_size=60)


def window_of(pieces, **options) -> LineWindow:
    window = LineWindow(**{"max_line_length": 5, "max_bytes": 40, **options})
    for piece in pieces:
        window.feed(piece)
    window.finish()
    return window


def cut(text: str, points: list[int]) -> list[str]:
    edges = [0, *sorted(min(point, len(text)) for point in points), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(TEXT, st.lists(st.integers(0, 60)), st.integers(1, 8), st.integers(1, 8))
def test_how_a_text_is_cut_into_pieces_changes_nothing(text, points, offset, limit):
    whole = window_of([text], offset=offset, limit=limit)
    pieces = window_of(cut(text, points), offset=offset, limit=limit)
    assert (pieces.lines, pieces.total, pieces.capped) == (whole.lines, whole.total, whole.capped)


@given(TEXT, st.integers(1, 8), st.integers(1, 8))
def test_without_caps_the_window_is_a_slice_of_the_lines(text, offset, limit):
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if text == "":
        lines = []
    window = window_of([text], offset=offset, limit=limit, max_line_length=99, max_bytes=999)
    assert window.total == len(lines)
    assert [line.text for line in window.lines] == lines[offset - 1 :][:limit]
    assert [line.number for line in window.lines] == list(range(offset, len(lines) + 1))[:limit]


@given(TEXT, st.integers(1, 8), st.integers(1, 40))
def test_selected_lines_stay_under_the_cap_and_paging_ends(text, offset, max_bytes):
    window = window_of([text], offset=offset, limit=99, max_line_length=99, max_bytes=max_bytes)
    if len(window.lines) > 1:
        assert sum(len(line.text.encode()) + 1 for line in window.lines) <= max_bytes
    # As long as there are lines from here on, a read gives at least one.
    assert bool(window.lines) == (offset <= window.total)
