"""The HTTP client: imported on the first request, kept for the life of the plugin."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from dsh_llm import LlmError

if TYPE_CHECKING:
    from types import ModuleType

    import httpx

    from ._config import Profile

VERSION: Final = "0.1.0"
USER_AGENT: Final = f"dsh/{VERSION}"

_KEEPALIVE_SECONDS: Final = 60.0
"""Longer than most tool calls, so that the next step finds its connection open."""


def import_httpx() -> ModuleType:
    """httpx, without its command line.

    `httpx/__init__` imports `httpx._main` where click and rich are installed, which costs more
    than the rest of httpx and is of no use here. A `None` in `sys.modules` is Python's own way to
    say that a module is not there, and httpx is made to live without it. The mark is removed at
    once, so that `httpx` on the command line still works in this process.
    """
    loaded = sys.modules.get("httpx")
    if loaded is not None:
        return loaded
    marks: dict[str, Any] = sys.modules
    hidden = "httpx._main" not in marks
    if hidden:
        marks["httpx._main"] = None
    try:
        import httpx
    finally:
        if hidden:
            marks.pop("httpx._main", None)
    return httpx


class Transport:
    """One connection pool for one provider configuration. Dispose it with its owner."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._client: httpx.AsyncClient | None = None
        self._disposed = False

    async def open(self, body: bytes, key: str) -> httpx.Response:
        """Send one request; returns when the head of the response is there, its body unread.

        Raises httpx's errors, and `LlmError` with `TRANSPORT` once disposed.
        """
        client = self._client or self._connect()
        request = client.build_request(
            "POST",
            f"{self._profile.base_url}/chat/completions",
            content=body,
            headers={
                "authorization": f"Bearer {key}",
                "content-type": "application/json",
                "accept": "text/event-stream",
                "accept-encoding": "identity",
                "user-agent": USER_AGENT,
            },
        )
        return await client.send(request, stream=True)

    async def dispose(self) -> None:
        """Close all connections, those of running streams too."""
        self._disposed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connect(self) -> httpx.AsyncClient:
        if self._disposed:
            raise LlmError("the model provider was unloaded", code="TRANSPORT")
        loaded = import_httpx()
        profile = self._profile
        client: httpx.AsyncClient = loaded.AsyncClient(
            # Reading the certificates takes 20 to 40 ms, which a plain URL need not pay: no TLS
            # ever happens there, since redirects are not followed.
            verify=loaded.create_ssl_context() if profile.is_tls else False,
            trust_env=not profile.is_loopback,
            # Silence and total time are bounded by the stream, which knows what waiting is.
            timeout=loaded.Timeout(None, connect=profile.connect_timeout_ms / 1000),
            limits=loaded.Limits(
                max_connections=None,
                max_keepalive_connections=100,
                keepalive_expiry=_KEEPALIVE_SECONDS,
            ),
            follow_redirects=False,
        )
        self._client = client
        return client
