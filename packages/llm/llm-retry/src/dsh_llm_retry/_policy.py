"""The arithmetic of a retry policy, over plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from dsh_llm import AlwaysRetry
from msgspec import UNSET

if TYPE_CHECKING:
    from dsh_llm import LlmFailure, RetryPolicy

_MAX_DOUBLINGS = 64
"""More would only leave the range of a float; every delay is at its longest long before."""


def mode_of(policy: RetryPolicy) -> Literal["normal", "always"]:
    """The policy's mode, as configuration and log spell it."""
    return "always" if isinstance(policy, AlwaysRetry) else "normal"


def policy_key(policy: RetryPolicy) -> str:
    """The policy as one canonical text: equal policies have equal keys."""
    backoff = (policy.initial_delay_ms, policy.max_delay_ms, policy.jitter_ratio)
    numbers = [plain_number(value) for value in backoff]
    if isinstance(policy, AlwaysRetry):
        parts: list[object] = ["always", *numbers]
    else:
        codes = sorted(policy.retryable_codes)
        parts = ["normal", policy.max_retries, codes, *numbers]
    return msgspec.json.encode(parts).decode()


def local_delay_ms(policy: RetryPolicy, retry: int, sample: float) -> float:
    """The delay before retry number `retry`, from 1; `sample` in [0, 1] places it in the jitter."""
    doubled = policy.initial_delay_ms * 2.0 ** min(retry - 1, _MAX_DOUBLINGS)
    factor = 1 - policy.jitter_ratio + 2 * policy.jitter_ratio * sample
    delay_ms = min(min(doubled, policy.max_delay_ms) * factor, policy.max_delay_ms)
    return plain_number(round(delay_ms, 3))


def delay_before(
    policy: RetryPolicy, failure: LlmFailure, *, retry: int, sample: float
) -> float | None:
    """How long to wait, or None if the provider asks for longer than a bounded policy waits.

    What the provider asks for is used exactly, as long as the policy's longest delay allows it.
    """
    asked = failure.provider_retry_after_ms
    if asked is not UNSET and asked <= policy.max_delay_ms:
        return plain_number(asked)
    if asked is not UNSET and not isinstance(policy, AlwaysRetry):
        return None
    return local_delay_ms(policy, retry, sample)


def plain_number(value: float) -> float:
    """`value`, as an integer if it is one: what is logged reads `500`, not `500.0`."""
    return int(value) if value == int(value) else value
