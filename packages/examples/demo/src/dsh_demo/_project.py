"""A small project with one failing test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

MODULE: Final = '''\
"""Prices in cents."""


def total(prices: list[int], discount_percent: int = 0) -> int:
    """The sum of `prices` less the discount, rounded half up to a cent."""
    full = sum(prices)
    return full - full * discount_percent // 100
'''

TESTS: Final = """\
import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([250, 199]), 449)

    def test_discount_is_rounded_half_up(self):
        self.assertEqual(total([199], discount_percent=50), 100)
        self.assertEqual(total([102], discount_percent=33), 68)


if __name__ == "__main__":
    unittest.main()
"""

BUG: Final = "    return full - full * discount_percent // 100\n"
FIX: Final = "    return (full * (100 - discount_percent) + 50) // 100\n"
TASK: Final = "One test of this project fails. Find out why and make it pass."


def create_project(directory: Path) -> None:
    """Write the project into `directory`, which must not exist."""
    directory.mkdir(parents=True)
    (directory / "prices.py").write_text(MODULE, encoding="utf-8")
    (directory / "test_prices.py").write_text(TESTS, encoding="utf-8")


def tests_pass(directory: Path) -> bool:
    """Run the project's tests with this interpreter, their output on stderr."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "-q"],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0
