"""Fixtures of the kernel's tests."""

from __future__ import annotations

import pytest
from dsh_cordis import Context


@pytest.fixture
async def root():
    async with Context() as ctx:
        yield ctx
