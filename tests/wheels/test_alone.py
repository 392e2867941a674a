"""A wheel works with what it declares and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1800)


def check(done: Any, verdict: Any) -> None:
    """Fail with what the command wrote, or with why it could not run."""
    last = done or verdict.installed
    if done is None or done.returncode:
        pytest.fail(last.stdout + last.stderr, pytrace=False)


def test_a_wheel_installs_and_imports_with_only_what_it_declares(verdict: Any) -> None:
    check(verdict.imported, verdict)


def test_the_examples_of_its_readme_run_with_what_it_says_to_install(verdict: Any) -> None:
    check(verdict.shown, verdict)


def test_its_own_tests_pass_against_the_wheel(verdict: Any) -> None:
    check(verdict.tested, verdict)
