"""When a failed request is made again: data only, `dsh-llm-retry` acts on it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from dsh_cordis import ConfigError
from msgspec import UNSET, Meta, UnsetType

RETRYABLE_CODES = (
    "EMPTY_RESPONSE",
    "RATE_LIMIT",
    "SERVER",
    "STREAM_CLOSED",
    "TIMEOUT",
    "TRANSPORT",
)
"""Failures that may well not happen again, in alphabetical order."""

DelayMs: TypeAlias = Annotated[float, Meta(gt=0, le=2147483647)]
Ratio: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Retries: TypeAlias = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Code: TypeAlias = Annotated[str, Meta(min_length=1)]


class NormalRetry(msgspec.Struct, frozen=True, kw_only=True):
    """Retry listed failures a bounded number of times, then give up."""

    max_retries: int = 5
    """Requests after the first one."""
    retryable_codes: tuple[str, ...] = RETRYABLE_CODES
    initial_delay_ms: float = 500
    max_delay_ms: float = 10_000
    jitter_ratio: float = 0.1


class AlwaysRetry(msgspec.Struct, frozen=True, kw_only=True):
    """Retry every failure until somebody aborts; for unattended runs."""

    initial_delay_ms: float = 500
    max_delay_ms: float = 10_000
    jitter_ratio: float = 0.1


RetryPolicy: TypeAlias = NormalRetry | AlwaysRetry


class Backoff(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """How long to wait: doubled from the initial delay with each retry, up to the longest."""

    initial_delay_ms: Annotated[
        DelayMs, Meta(description="Before the first retry; doubled with each.")
    ] = 500
    max_delay_ms: Annotated[DelayMs, Meta(description="No wait is planned longer.")] = 10_000
    jitter_ratio: Annotated[
        Ratio, Meta(description="The delay is multiplied by a random factor of 1 ± this.")
    ] = 0.1


class RetryConfig(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """A retry policy as it stands in a provider's configuration."""

    mode: Annotated[
        Literal["normal", "always"],
        Meta(description="`always` retries every failure until somebody aborts."),
    ] = "normal"
    max_retries: Annotated[
        Retries | UnsetType, Meta(description="`normal`: requests after the first; 5 if absent.")
    ] = UNSET
    retryable_codes: Annotated[
        tuple[Code, ...] | UnsetType,
        Meta(description="`normal`: failures worth a retry; if absent, those of dsh-llm."),
    ] = UNSET
    backoff: Annotated[Backoff, Meta(description="How long to wait before a retry.")] = Backoff()

    def resolve(self) -> RetryPolicy:
        """The flat policy; `always` drops what only `normal` reads.

        Raises `ConfigError` if the initial delay is above the longest, or a code is repeated.
        """
        initial, longest = self.backoff.initial_delay_ms, self.backoff.max_delay_ms
        if initial > longest:
            raise ConfigError(
                f"retryPolicy.backoff: initialDelayMs {initial:g} is above maxDelayMs {longest:g}"
            )
        jitter = self.backoff.jitter_ratio
        if self.mode == "always":
            return AlwaysRetry(initial_delay_ms=initial, max_delay_ms=longest, jitter_ratio=jitter)
        codes = RETRYABLE_CODES if self.retryable_codes is UNSET else self.retryable_codes
        if len(set(codes)) != len(codes):
            raise ConfigError("retryPolicy.retryableCodes names a code twice")
        return NormalRetry(
            max_retries=5 if self.max_retries is UNSET else self.max_retries,
            retryable_codes=codes,
            initial_delay_ms=initial,
            max_delay_ms=longest,
            jitter_ratio=jitter,
        )
