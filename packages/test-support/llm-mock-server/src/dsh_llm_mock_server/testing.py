"""Fixtures for pytest: import the one you need into a conftest.py. Needs pytest, and anyio."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from ._server import MockServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ._records import Script
    from ._threaded import ThreadedMockServer


class ServeModel(Protocol):
    """Starts a server that is closed when the test ends."""

    async def __call__(
        self, replies: Script, *, strict: bool = True, require_key: str | None = None
    ) -> MockServer:
        """The started server."""
        ...


class ServeModelThreaded(Protocol):
    """Starts a server in a thread that is closed when the test ends."""

    def __call__(
        self, replies: Script, *, strict: bool = True, require_key: str | None = None
    ) -> ThreadedMockServer:
        """The started server."""
        ...


@pytest.fixture
async def serve_model(
    anyio_backend: str,  # noqa: ARG001 - asks anyio to run this fixture
) -> AsyncIterator[ServeModel]:
    """For asynchronous tests: `server = await serve_model([Reply.text("hi")])`."""
    async with AsyncExitStack() as stack:

        async def serve(
            replies: Script, *, strict: bool = True, require_key: str | None = None
        ) -> MockServer:
            server = MockServer(replies, strict=strict, require_key=require_key)
            return await stack.enter_async_context(server)

        yield serve


@pytest.fixture
def serve_model_threaded() -> Iterator[ServeModelThreaded]:
    """For blocking tests: `server = serve_model_threaded([Reply.text("hi")])`."""
    with ExitStack() as stack:

        def serve(
            replies: Script, *, strict: bool = True, require_key: str | None = None
        ) -> ThreadedMockServer:
            server = MockServer.threaded(replies, strict=strict, require_key=require_key)
            return stack.enter_context(server)

        yield serve
