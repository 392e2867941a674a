"""Names of directories."""

from __future__ import annotations

import re

import pytest
from dsh_session_persistence_jsonl._layout import project_segment, session_segment
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("cwd", "segment"),
    [
        ("/a/b-c", "--a-b-c--"),
        ("/a-b/c", "--a-b-c--"),
        ("C:\\work\\x", "--C-work-x--"),
        ("/", "--root--"),
        ("/home/me/my project", "--home-me-my~0020project--"),
        ("/a~b", "--a~007Eb--"),
        ("/\U0001f600", "--~D83D~DE00--"),
        ("/caf\u00e9", "--caf~00E9--"),
        (None, "_no-cwd"),
    ],
)
def test_a_project_directory_is_named_after_the_working_directory(
    cwd: str | None, segment: str
) -> None:
    assert project_segment(cwd) == segment


def test_a_long_path_is_cut_to_what_a_name_may_be() -> None:
    assert len(project_segment("/" + "x" * 1000)) == 255


@pytest.mark.parametrize(
    ("session_id", "segment"),
    [
        ("session-1", "session-1"),
        ("../x", "..~002Fx"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("~002F", "~007E002F"),
        ("/", "~002F"),
        ("\ud800", "~D800"),
        ("a b", "a~0020b"),
    ],
)
def test_a_session_directory_is_named_after_the_id(session_id: str, segment: str) -> None:
    assert session_segment(session_id) == segment


def test_an_empty_id_has_no_directory() -> None:
    with pytest.raises(ValueError, match="empty"):
        session_segment("")


any_text = st.text(st.characters(exclude_categories=()), min_size=1, max_size=8)


@given(any_text, any_text)
def test_different_ids_never_share_a_directory(one: str, other: str) -> None:
    names = session_segment(one), session_segment(other)
    assert (names[0] == names[1]) is (one == other)
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]+", name) for name in names)
    assert not {".", ".."} & set(names)
