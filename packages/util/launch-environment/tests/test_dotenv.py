"""The `.env` format."""

from __future__ import annotations

import pytest
from dsh_launch_environment._dotenv import parse_dotenv
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1", {"A": "1"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("  export A = spaced value  ", {"A": "spaced value"}),
        ("A=", {"A": ""}),
        ("A=\nB=2", {"A": "", "B": "2"}),
        ("# note\n\nA=1 # why\n", {"A": "1"}),
        ("A=# only a comment", {"A": ""}),
        ("A=pass#word", {"A": "pass#word"}),
        ("A='$X # \\n'", {"A": "$X # \\n"}),
        ('A="two\\nlines" # why', {"A": "two\nlines"}),
        ('A="say \\"hi\\" \\\\ \\x"', {"A": 'say "hi" \\ x'}),
        ('A="first\nsecond"\nB=2', {"A": "first\nsecond", "B": "2"}),
        ("A=`it's`", {"A": "it's"}),
        ("A=it's", {"A": "it's"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A=$HOME", {"A": "$HOME"}),
        ("A=a=b==", {"A": "a=b=="}),
    ],
)
def test_assignments_are_read(text: str, expected: dict[str, str]) -> None:
    assert parse_dotenv(text) == (expected, [])


@pytest.mark.parametrize(
    "line", ["word", "1A=2", "=x", 'A="open', "A='x' y", "A=\x00", "A='\x00'", "a b=c", "A-B=1"]
)
def test_a_malformed_line_is_numbered_and_the_others_count(line: str) -> None:
    assert parse_dotenv(f"B=1\n\n{line}\nC=2") == ({"B": "1", "C": "2"}, [3])


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    variables, bad_lines = parse_dotenv(text)
    assert all("\x00" not in value for value in variables.values())
    assert bad_lines == sorted(set(bad_lines))


@given(st.text(st.characters(exclude_characters="\x00\r", exclude_categories=["Cs"])))
def test_any_value_can_be_written_in_double_quotes(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_dotenv(f'A="{quoted}"') == ({"A": value}, [])
