"""Events and logs to test with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from dsh_cordis import Context
from dsh_session import SESSIONS, SessionStore


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    async with Context() as ctx:
        await ctx.plugin(SessionStore)
        yield ctx


@pytest.fixture
def store(root: Context) -> SessionStore:
    return root[SESSIONS]
