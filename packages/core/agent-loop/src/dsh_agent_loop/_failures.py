"""From whatever ended a turn to the facts that its log keeps."""

from __future__ import annotations

import asyncio

from dsh_cordis import cancelled_from_outside
from dsh_llm import LlmError, error_chain
from dsh_lossless_json import repaired
from dsh_session import ErrorFacts


def is_failure(error: BaseException) -> bool:
    """Whether the work failed, as opposed to the running task being cancelled or interrupted.

    A CancelledError that nobody asked for comes from work that awaited something cancelled.
    """
    if isinstance(error, asyncio.CancelledError):
        return not cancelled_from_outside()
    return isinstance(error, Exception)


def facts_of(error: BaseException) -> ErrorFacts:
    """A model failure keeps its facts; of anything else the chain of causes is kept as text.

    The text is repaired: the end of a turn has to be logged whatever an error says.
    """
    if isinstance(error, LlmError):
        failure = error.failure
        return ErrorFacts(
            repaired(failure.message),
            failure.code,
            failure.status,
            failure.provider_retry_after_ms,
            failure.request_id,
        )
    return ErrorFacts(repaired(error_chain(error)), "UNKNOWN")
