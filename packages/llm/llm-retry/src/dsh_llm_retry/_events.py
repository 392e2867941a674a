"""What the log says about retries."""

from __future__ import annotations

from typing import Annotated, Literal, NewType

import msgspec
from dsh_llm import LlmFailure
from dsh_session import LogEvent
from msgspec import UNSET, Meta, UnsetType

RetryId = NewType("RetryId", str)


class RetryPlanned(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A request failed and will be made again after a delay."""

    retry_id: RetryId
    """Shared by the retries of one step, provider and policy."""
    turn: int
    step: int
    provider: str
    mode: Literal["normal", "always"]
    policy_key: str
    """The policy as compact JSON; another policy counts from 1 again."""
    retry: Annotated[int, Meta(ge=1)]
    """Which retry this is, from 1."""
    max_retries: int | UnsetType = UNSET
    """Absent where there is no bound."""
    delay_ms: float
    failure: LlmFailure


class RetryStarted(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The delay is over, the request is made again; absent if the wait was cancelled."""

    retry_id: RetryId
    turn: int
    step: int
    retry: int


LLM_RETRY = LogEvent("llm/retry", RetryPlanned)
LLM_RETRY_STARTED = LogEvent("llm/retry-started", RetryStarted)
