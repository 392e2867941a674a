"""Retries failed model requests with backoff."""

from __future__ import annotations

from ._events import LLM_RETRY, LLM_RETRY_STARTED, RetryId, RetryPlanned, RetryStarted
from ._plugin import LlmRetry
from ._policy import policy_key
from ._recovery import Recovery

__all__ = (
    "LLM_RETRY",
    "LLM_RETRY_STARTED",
    "LlmRetry",
    "Recovery",
    "RetryId",
    "RetryPlanned",
    "RetryStarted",
    "policy_key",
)
