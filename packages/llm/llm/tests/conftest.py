from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from dsh_cordis import Context
from dsh_llm import LLM, LlmRuntime


@pytest.fixture
async def root(anyio_backend: str) -> AsyncIterator[Context]:
    """A context with the runtime mounted."""
    async with Context() as root:
        await root.plugin(LlmRuntime)
        yield root


@pytest.fixture
async def llm(root: Context) -> LlmRuntime:
    return root[LLM]
