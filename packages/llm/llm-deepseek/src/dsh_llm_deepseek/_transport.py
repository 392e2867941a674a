"""The HTTP client: imported on the first request, kept for the life of the plugin."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from dsh_llm import LlmError

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

    import httpx

    from ._config import Profile

_KEEPALIVE_SECONDS: Final = 60.0
"""Longer than most tool calls, so that the next step finds its connection open."""
_PROXY_VARIABLES: Final = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
_TLS_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_MAX_IDLE: Final = 100
"""Connections that are kept without a request."""


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


@cache
def user_agent() -> str:
    """`dsh/<version of this distribution>`, read when the first request is made."""
    from importlib.metadata import version  # 3 to 8 ms, which a boot without a request need not pay

    return f"dsh/{version('dsh-llm-deepseek')}"


class AbsentModule:
    """Remembers, until disposed, that a module is not installed.

    httpcore tries to import sniffio for every lock that it makes, eleven times in a request. Where
    it is not installed each try searches the whole path, together 0.6 ms: as much as the rest of
    the request. With the mark the answer is the same and costs nothing.
    """

    __slots__ = ("_marked", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._marked = name not in sys.modules and find_spec(name) is None
        if self._marked:
            marks: dict[str, Any] = sys.modules
            marks[name] = None

    def dispose(self) -> None:
        """Let the module be looked for again."""
        marks: dict[str, Any] = sys.modules
        if self._marked and marks.get(self._name, self) is None:
            del marks[self._name]
        self._marked = False


class Exchange:
    """One response, and the client that it came through, on loan until disposed."""

    __slots__ = ("_client", "_transport", "response")
    response: httpx.Response

    def __init__(
        self, transport: Transport, client: httpx.AsyncClient, response: httpx.Response
    ) -> None:
        self._transport = transport
        self._client = client
        self.response = response

    async def dispose(self) -> None:
        """Close the response; its connection stays if the response was read to its end."""
        try:
            await self.response.aclose()
        finally:
            await self._transport.give_back(self._client)


class Transport:
    """The connections of one provider configuration. Dispose it with its owner.

    Each running request has a client of its own, and clients are used again, the newest first. One
    client for all would look at every connection for every other one whenever a request starts or
    ends, which for a hundred agents takes longer than all the rest.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._idle: deque[tuple[float, httpx.AsyncClient]] = deque()
        self._busy: set[httpx.AsyncClient] = set()
        self._tls: ssl.SSLContext | None = None
        self._absent: AbsentModule | None = None
        self._disposed = False

    async def open(self, body: bytes, key: str) -> Exchange:
        """Send one request; returns when the head of the response is there, its body unread.

        Raises httpx's errors, and `LlmError`: `TRANSPORT` once disposed, `TRANSPORT_SETUP` if the
        environment asks for what cannot be done.
        """
        if self._disposed:
            raise LlmError("the model provider was unloaded", code="TRANSPORT")
        client = self._idle.pop()[1] if self._idle else self._connect()
        self._busy.add(client)
        try:
            request = self._request(client, body, key)
            return Exchange(self, client, await client.send(request, stream=True))
        except BaseException:
            await self.give_back(client)
            raise

    async def give_back(self, client: httpx.AsyncClient) -> None:
        """Keep `client` for the next request, and close those that nobody has used for long."""
        if client not in self._busy:
            return
        self._busy.discard(client)
        now = time.monotonic()
        self._idle.append((now, client))
        while len(self._idle) > _MAX_IDLE or self._idle[0][0] < now - _KEEPALIVE_SECONDS:
            await self._idle.popleft()[1].aclose()

    async def dispose(self) -> None:
        """Close all connections, those of running streams too."""
        self._disposed = True
        clients = [*self._busy, *(client for _, client in self._idle)]
        self._busy.clear()
        self._idle.clear()
        for client in clients:
            await client.aclose()
        if self._absent is not None:
            self._absent.dispose()

    def _request(self, client: httpx.AsyncClient, body: bytes, key: str) -> httpx.Request:
        loaded: Any = import_httpx()
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": user_agent(),
        }
        url = f"{self._profile.base_url}/chat/completions"
        try:
            return client.build_request("POST", url, content=body, headers=headers)
        except (ValueError, loaded.InvalidURL) as error:
            # What only the client's own, stricter reading of the host finds.
            host = self._profile.host
            raise LlmError(
                f"the base URL has no usable host ({host!r}): {error}", code="TRANSPORT_SETUP"
            ) from error

    def _connect(self) -> httpx.AsyncClient:
        loaded: Any = import_httpx()
        profile = self._profile
        if self._absent is None:
            self._absent = AbsentModule("sniffio")
        if self._tls is None:
            # Reading the certificates takes 20 to 40 ms, which a plain URL need not pay: no TLS
            # ever happens there, since redirects are not followed.
            try:
                self._tls = loaded.create_ssl_context(verify=profile.is_tls)
            except OSError as error:
                raise _unusable("certificate", _TLS_VARIABLES, str(error)) from error
        try:
            return loaded.AsyncClient(
                verify=self._tls,
                trust_env=not profile.is_loopback,
                # Silence and total time are bounded by the stream, which knows what waiting is.
                timeout=loaded.Timeout(None, connect=profile.connect_timeout_ms / 1000),
                limits=loaded.Limits(
                    max_connections=None,
                    max_keepalive_connections=1,
                    keepalive_expiry=_KEEPALIVE_SECONDS,
                ),
                follow_redirects=False,
            )
        except ImportError as error:
            raise _unusable("proxy", _PROXY_VARIABLES, "SOCKS is not supported here") from error
        except (ValueError, loaded.InvalidURL):
            # The cause stays out of it, chained or not: a proxy's URL may hold a password.
            raise _unusable("proxy", _PROXY_VARIABLES, "one of them is no URL") from None


def _unusable(kind: str, names: tuple[str, ...], reason: str) -> LlmError:
    present = {name.upper() for name in os.environ if os.environ[name]}
    named = ", ".join(name for name in names if name in present)
    return LlmError(
        f"the {kind} settings of the environment cannot be used ({named}): {reason}; "
        "mend or unset them",
        code="TRANSPORT_SETUP",
    )
