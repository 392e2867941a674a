"""Fixtures that every test of the workspace sees."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The kernel owns asyncio tasks, so asynchronous tests run on asyncio."""
    return "asyncio"
