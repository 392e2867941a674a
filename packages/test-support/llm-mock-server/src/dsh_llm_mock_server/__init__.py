"""A scripted chat-completions server for tests and demos."""

from __future__ import annotations

from ._records import (
    MockServerError,
    Outcome,
    Refusal,
    Request,
    Responder,
    Script,
)
from ._reply import DEFAULT_USAGE, Reply
from ._script import replies_from_json
from ._server import MockServer
from ._threaded import ThreadedMockServer

__all__ = (
    "DEFAULT_USAGE",
    "MockServer",
    "MockServerError",
    "Outcome",
    "Refusal",
    "Reply",
    "Request",
    "Responder",
    "Script",
    "ThreadedMockServer",
    "replies_from_json",
)
