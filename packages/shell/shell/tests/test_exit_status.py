"""The marker that ends a command's text."""

from __future__ import annotations

import pytest
from dsh_shell import ExitStatus, parse_exit_status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("hi", ExitStatus("hi", 0, None)),
        ("", ExitStatus("", 0, None)),
        ("hi\n[exit code: 3]", ExitStatus("hi", 3, None)),
        ("a\nb\n[killed by signal: SIGTERM]", ExitStatus("a\nb", None, "SIGTERM")),
        ("\n[exit code: 127]", ExitStatus("", 127, None)),
        (
            "x\n[timed out after 5ms]\n[exit code: 1]",
            ExitStatus("x\n[timed out after 5ms]", 1, None),
        ),
    ],
)
def test_the_last_marker_tells_how_the_command_ended(text: str, status: ExitStatus) -> None:
    assert parse_exit_status(text) == status


@pytest.mark.parametrize(
    "text",
    [
        "[exit code: 5]",
        "x[exit code: 5]",
        "\n[exit code: 5]\n",
        "\n[exit code: -5]",
        "\n[exit code: ]",
    ],
)
def test_what_is_no_marker_line_stays_in_the_body(text: str) -> None:
    assert parse_exit_status(text) == ExitStatus(text, 0, None)
