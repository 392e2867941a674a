"""A scripted chat-completions server for tests and demos."""

from __future__ import annotations

from dsh_llm_mock_server._records import (
    MockServerError,
    Outcome,
    Refusal,
    Request,
    Responder,
    Script,
)
from dsh_llm_mock_server._reply import DEFAULT_USAGE, Reply
from dsh_llm_mock_server._script import replies_from_json
from dsh_llm_mock_server._server import MockServer
from dsh_llm_mock_server._threaded import ThreadedMockServer

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
