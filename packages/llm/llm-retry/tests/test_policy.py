from __future__ import annotations

import pytest
from dsh_llm import AlwaysRetry, LlmFailure, NormalRetry
from dsh_llm_retry import policy_key
from dsh_llm_retry._policy import delay_before, local_delay_ms


def busy(retry_after_ms: float | None = None) -> LlmFailure:
    if retry_after_ms is None:
        return LlmFailure("busy", "SERVER")
    return LlmFailure("busy", "SERVER", provider_retry_after_ms=retry_after_ms)


def test_delays_double_and_spread_by_the_sample() -> None:
    policy = NormalRetry(initial_delay_ms=500, jitter_ratio=0.1)
    assert local_delay_ms(policy, 1, 0) == 450
    assert local_delay_ms(policy, 2, 1) == 1100


@pytest.mark.parametrize("retry", [6, 60, 10_000])
def test_no_delay_is_longer_than_the_longest(retry: int) -> None:
    assert local_delay_ms(AlwaysRetry(jitter_ratio=1), retry, 1) == 10_000


def test_the_key_of_a_policy_is_canonical() -> None:
    policy = NormalRetry(max_retries=2, retryable_codes=("SERVER", "RATE_LIMIT"), jitter_ratio=0)
    assert policy_key(policy) == '["normal",2,["RATE_LIMIT","SERVER"],500,10000,0]'
    assert policy_key(AlwaysRetry(initial_delay_ms=0.5)) == '["always",0.5,10000,0.1]'


def test_what_the_provider_asks_for_is_used_exactly() -> None:
    policy = NormalRetry(jitter_ratio=1)
    assert delay_before(policy, busy(2000), retry=3, sample=0.9) == 2000
    assert delay_before(policy, busy(10_000), retry=1, sample=0) == 10_000


def test_a_bounded_policy_does_not_wait_longer_than_its_longest() -> None:
    assert delay_before(NormalRetry(), busy(10_001), retry=1, sample=0.5) is None
    assert delay_before(AlwaysRetry(), busy(10_001), retry=1, sample=0.5) == 500
