"""What the model of the demo says: a fixed script, sent over real HTTP."""

from __future__ import annotations

import shlex
import sys

from dsh_llm_mock_server import Reply

from ._project import BUG, FIX

_PACE_MS = 40


def replies(*, slow: bool) -> list[Reply]:
    """Look, read, edit, test, answer. `slow` streams it at the pace of a person reading."""
    tests = f"{shlex.quote(sys.executable)} -B -m unittest -q"
    script = [
        Reply.think("First see what is here and how the tests fail.")
        .text("I look at the project and run its tests.", chunk_size=6)
        .call("bash", {"command": f"ls && {tests}", "description": "List files and run tests"}),
        Reply.think("A rounding problem. Read the code and the test.")
        .call("read", {"file_path": "prices.py"})
        .call("read", {"file_path": "test_prices.py"}),
        Reply.think("The discount is rounded down, so the price is always rounded up.")
        .text("It rounds the discount; it has to round the price. I fix that.", chunk_size=6)
        .call("edit", {"file_path": "prices.py", "old_string": BUG, "new_string": FIX}),
        Reply.call("bash", {"command": tests, "description": "Run the tests again"}),
        Reply.text(
            "The tests pass. `total` rounded the discount down instead of rounding the price half "
            "up; it now computes the price and rounds that.",
            chunk_size=6,
        ),
    ]
    return [reply.pace(_PACE_MS) for reply in script] if slow else script
