"""What the server remembers of its clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ._reply import Reply

Outcome = Literal["completed", "cut", "reset", "client_closed", "server_closed"]
"""How a reply ended; `eof` and error responses count as completed."""


@dataclass(slots=True, eq=False)
class Request:
    """One accepted chat-completions request."""

    number: int
    """1 for the first; the n-th accepted request takes the n-th reply."""
    path: str
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case; may hold a key, so they are not printed."""
    body: dict[str, Any]
    time: float
    """Seconds since the epoch when the body had been read."""
    outcome: Outcome | None = None
    """None while the reply is being sent."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as sent, oldest first."""
        return self.body.get("messages", [])


@dataclass(frozen=True, slots=True)
class Refusal:
    """One request that was answered with an error before any reply was taken."""

    status: int
    message: str
    path: str
    raw: bytes = field(repr=False)
    """The request body as received."""
    time: float = 0.0


Responder = Callable[[Request], Reply | Awaitable[Reply]]
"""Makes the reply for a request."""

Script = Iterable[Reply | Responder] | Responder
"""Replies in order, or one function for every request."""


class MockServerError(RuntimeError):
    """The server cannot do what a test asked; `code` says which case."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code
