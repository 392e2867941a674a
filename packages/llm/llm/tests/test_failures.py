from __future__ import annotations

import pytest
from dsh_cordis import AbortedError, ConfigError, CordisError
from dsh_llm import (
    AlwaysRetry,
    Backoff,
    KeyProblem,
    LlmError,
    LlmFailure,
    NormalRetry,
    RetryConfig,
    assert_usable_api_key,
    error_chain,
    failure_of,
    is_context_overflow,
    is_quota,
    normalize_api_key,
)


@pytest.mark.parametrize(
    "facts",
    [
        {"message": ""},
        {"code": ""},
        {"status": 99},
        {"status": 600},
        {"provider_retry_after_ms": 0},
        {"request_id": ""},
    ],
)
def test_facts_out_of_bounds_are_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        LlmError(**{"message": "busy", "code": "SERVER", **facts})  # type: ignore[arg-type]


def test_an_errors_failure_has_its_code_and_is_frozen() -> None:
    error = LlmError("busy", code="SERVER", status=503, provider_retry_after_ms=2000)
    assert error.failure == LlmFailure("busy", "SERVER", 503, 2000)
    with pytest.raises(AttributeError):
        error.failure.code = "OTHER"  # type: ignore[misc]


def test_foreign_errors_are_unknown_and_ours_keep_their_code() -> None:
    class Sdk(Exception):
        code = "rate_limited"

    assert failure_of(ValueError("x")) == LlmFailure("x", "UNKNOWN")
    assert failure_of(Sdk("x")) == LlmFailure("x", "UNKNOWN")
    assert failure_of(CordisError("x", code="OURS")) == LlmFailure("x", "OURS")
    assert failure_of(AbortedError("why")).code == "ABORTED"
    assert failure_of(ValueError()).message


def test_a_failure_of_the_same_package_loaded_twice_is_understood() -> None:
    class Twin:
        message, code, status = "busy", "SERVER", 503
        provider_retry_after_ms = 5.0
        request_id = "r1"

    class Foreign(Exception):
        code = "SERVER"
        failure = Twin()

    assert failure_of(Foreign("text")) == LlmFailure("busy", "SERVER", 503, 5.0, "r1")
    disagreeing = Foreign("text")
    disagreeing.code = "OTHER"
    assert failure_of(disagreeing) == LlmFailure("text", "UNKNOWN")


def test_a_hostile_error_object_cannot_escape() -> None:
    class Hostile(Exception):
        @property
        def failure(self) -> object:
            raise RuntimeError("gotcha")

        def __str__(self) -> str:
            raise RuntimeError("gotcha")

    assert failure_of(Hostile()).code == "UNKNOWN"
    assert error_chain(Hostile()) == "(unprintable)"


def test_a_wrapped_failure_renders_wrapper_and_cause() -> None:
    try:
        try:
            raise ConnectionResetError("reset by peer")
        except OSError as cause:
            raise LlmError("cannot reach host", code="TRANSPORT") from cause
    except LlmError as error:
        assert error_chain(error) == "cannot reach host: reset by peer"


def test_chains_name_classes_groups_repeats_and_cycles() -> None:
    assert error_chain(ValueError()) == "ValueError"
    group = ExceptionGroup("all failed", [ValueError("a"), KeyError("b")])
    assert error_chain(group) == "all failed [a; 'b']"
    repeated = ValueError("same")
    repeated.__cause__ = OSError("same")
    assert error_chain(repeated) == "same"
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert error_chain(one) == "one: two: (seen above)"


@pytest.mark.parametrize(
    "text",
    [
        "context_length_exceeded",
        "Context window exceeded",
        "context-window-limit-exceeded",
        "This model's maximum context length is 65536 tokens",
        "above the max allowed context window",
        "the prompt is too long for the model context",
        "request too large for this model",
        "input tokens exceed the context window",
        "messages (9999 tokens) are larger than the model context",
    ],
)
def test_words_for_a_full_window_are_understood(text: str) -> None:
    assert is_context_overflow(text)


@pytest.mark.parametrize(
    "text",
    [
        "context_window must be positive",
        "max context window must be positive",
        "temperature is out of range",
        "Request too large",
    ],
)
def test_other_complaints_are_no_full_window(text: str) -> None:
    assert not is_context_overflow(text)


@pytest.mark.parametrize(
    "text",
    [
        "insufficient_quota",
        "Insufficient Balance",
        "You exceeded your current quota, check your plan",
        "quota exceeded",
        "usage limit reached",
        "credits exhausted",
        "out of credits",
    ],
)
def test_words_for_an_empty_account_are_understood(text: str) -> None:
    assert is_quota(text)


@pytest.mark.parametrize("text", ["Rate limit reached", "quota resets at 10:00"])
def test_a_rate_limit_is_no_empty_account(text: str) -> None:
    assert not is_quota(text)


def test_keys_are_trimmed_visible_ascii() -> None:
    assert normalize_api_key("  k\n") == "k"
    assert normalize_api_key(" \n") is KeyProblem.EMPTY
    for raw in ("a b", "sk-é", "sk-😀", "a\x00b"):
        assert normalize_api_key(raw) is KeyProblem.ILLEGAL_CHARACTERS


def test_the_refusal_of_a_key_names_the_reference_and_not_the_secret() -> None:
    with pytest.raises(LlmError) as caught:
        assert_usable_api_key("sk-sécret", package="dsh-x", reference="X_KEY")
    assert caught.value.code == "INVALID_CREDENTIAL"
    assert "X_KEY" in str(caught.value)
    assert "dsh-x" in str(caught.value)
    assert "cret" not in str(caught.value)


def test_a_configured_policy_resolves_to_a_flat_one() -> None:
    assert RetryConfig().resolve() == NormalRetry()
    backoff = Backoff(initial_delay_ms=1, max_delay_ms=2, jitter_ratio=0)
    always = RetryConfig(mode="always", max_retries=3, retryable_codes=("X",), backoff=backoff)
    assert always.resolve() == AlwaysRetry(initial_delay_ms=1, max_delay_ms=2, jitter_ratio=0)


def test_contradictory_policies_are_refused() -> None:
    with pytest.raises(ConfigError):
        RetryConfig(backoff=Backoff(initial_delay_ms=3, max_delay_ms=2)).resolve()
    with pytest.raises(ConfigError):
        RetryConfig(retryable_codes=("A", "A")).resolve()
