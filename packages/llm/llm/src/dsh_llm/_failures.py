"""Failures of model requests: facts only, whether to retry is a policy's decision."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from dsh_cordis import CordisError
from msgspec import UNSET, Meta, UnsetType

NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]


class LlmFailure(msgspec.Struct, frozen=True, rename="camel"):
    """What is known about a failed request."""

    message: NonEmpty
    code: NonEmpty
    """`AUTH`, `QUOTA`, `RATE_LIMIT`, `SERVER`, `TIMEOUT`, `TRANSPORT`, ...; see the README."""
    status: Annotated[int, Meta(ge=100, le=599)] | UnsetType = UNSET
    """HTTP status."""
    provider_retry_after_ms: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    request_id: NonEmpty | UnsetType = UNSET


class LlmError(CordisError):
    """A model request failed, or could not be made; `failure` has the facts."""

    failure: LlmFailure

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        provider_retry_after_ms: float | None = None,
        request_id: str | None = None,
    ) -> None:
        """Raises `ValueError` for facts out of bounds (empty text, status 99, delay 0)."""
        super().__init__(message, code=code)
        facts = {
            "message": message,
            "code": code,
            "status": status,
            "providerRetryAfterMs": provider_retry_after_ms,
            "requestId": request_id,
        }
        # The constructor of a Struct checks nothing; converting does.
        self.failure = msgspec.convert(
            {key: value for key, value in facts.items() if value is not None}, LlmFailure
        )

    @classmethod
    def of(cls, failure: LlmFailure) -> LlmError:
        """The exception for a failure that arrived as data."""
        error = cls(failure.message, code=failure.code)
        error.failure = failure
        return error
