"""Clamping and deadlines."""

from __future__ import annotations

import math
from typing import Any

import pytest
from dsh_cordis import AbortController, AbortedError, ConfigError
from dsh_timeout import TimeoutReason, clamp_timeout, deadline, timeout_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("requested", "expected"), [(None, 100), (50, 50), (0.5, 0.5), (1000, 1000), (1001, 1000)]
)
async def test_a_request_is_bounded_by_the_maximum(requested: Any, expected: float) -> None:
    assert clamp_timeout(requested, default_ms=100, max_ms=1000, name="timeoutMs") == expected


@pytest.mark.parametrize("requested", [0, -1, math.nan, math.inf, True])
async def test_a_request_that_is_no_time_is_refused_by_name(requested: Any) -> None:
    with pytest.raises(ConfigError, match=r"^timeoutMs must be a positive finite number") as caught:
        clamp_timeout(requested, default_ms=100, max_ms=1000, name="timeoutMs")
    assert caught.value.code == "INVALID_TIMEOUT"


async def test_a_deadline_aborts_with_its_own_code(clock: Any) -> None:
    with deadline(None, 100, "TIMEOUT") as signal:
        await clock.advance(99)
        assert not signal.aborted
        await clock.advance(2)
        assert timeout_of(signal, "TIMEOUT") == TimeoutReason("TIMEOUT", 100)
        assert timeout_of(signal, "OTHER") is None
        with pytest.raises(AbortedError, match="TIMEOUT after 100 ms"):
            signal.throw_if_aborted()


async def test_the_first_abort_owns_the_reason(clock: Any) -> None:
    caller = AbortController()
    with deadline(caller.signal, 100, "TIMEOUT") as signal:
        caller.abort("caller")
        await clock.advance(200)
        assert signal.reason == "caller"
        assert timeout_of(signal, "TIMEOUT") is None
    late = AbortController()
    with deadline(late.signal, 100, "TIMEOUT") as signal:
        await clock.advance(200)
        late.abort("caller")
        assert timeout_of(signal, "TIMEOUT") is not None


async def test_an_upstream_timeout_is_not_mistaken_for_the_own_one(clock: Any) -> None:
    with deadline(None, 50, "B") as outer, deadline(outer, 100, "A") as inner:
        await clock.advance(60)
        assert timeout_of(inner, "A") is None
        assert timeout_of(inner, "B") is not None


@pytest.mark.parametrize("ms", [0, -5, math.inf])
async def test_no_bound_means_no_timer(clock: Any, ms: float) -> None:
    caller = AbortController()
    with deadline(caller.signal, ms, "TIMEOUT") as signal:
        await clock.advance(10**12)
        assert not signal.aborted
        caller.abort("caller")
        assert signal.reason == "caller"


async def test_after_the_block_neither_timer_nor_upstream_is_followed(clock: Any) -> None:
    caller = AbortController()
    with deadline(caller.signal, 100, "TIMEOUT") as signal:
        pass
    await clock.advance(200)
    caller.abort("late")
    assert not signal.aborted


async def test_a_signal_that_was_never_aborted_has_no_timeout() -> None:
    assert timeout_of(AbortController().signal, "TIMEOUT") is None


async def test_nan_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="NaN"), deadline(None, math.nan, "TIMEOUT"):
        pass
