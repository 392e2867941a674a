"""A small client of the wire, over httpx."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from dsh_llm_mock_server import MockServer
from dsh_llm_mock_server.testing import serve_model, serve_model_threaded

__all__ = ("ask", "body", "serve_model", "serve_model_threaded")

Ask = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
def body() -> dict[str, Any]:
    """The smallest request that a strict server takes."""
    return {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def ask(anyio_backend: str, body: dict[str, Any]) -> AsyncIterator[Ask]:
    """Posts a body (an object, or bytes as they are) and reads the whole response."""
    async with httpx.AsyncClient(timeout=10, trust_env=False) as client:

        async def post(
            server: MockServer,
            content: dict[str, Any] | bytes | None = None,
            *,
            path: str = "/chat/completions",
            headers: dict[str, str] | None = None,
        ) -> httpx.Response:
            content = body if content is None else content
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            return await client.post(server.base_url + path, content=data, headers=headers)

        yield post
