"""The provider's adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import TYPE_CHECKING

from dsh_llm import Adapter, LlmError, ProviderInfo, assert_usable_api_key

from ._body import Encoded, RequestEncoder
from ._config import PROVIDER, Profile
from ._stream import ResponseStream
from ._translate import Translator
from ._transport import Transport

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal
    from dsh_llm import GenerateOptions, LlmFailure, ModelInfo, RetryPolicy, StreamChunk

PACKAGE = "dsh-llm-deepseek"


class DeepSeekAdapter(Adapter):
    """Chat completions of one endpoint. Dispose it when its routes are released."""

    reads_replay_state = False

    def __init__(self, profile: Profile, variable: Callable[[str], str | None]) -> None:
        """`variable` reads the environment; it is asked for the key at every request."""
        self._profile = profile
        self._variable = variable
        self._transport = Transport(profile)
        self._encoder = RequestEncoder()

    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """One request. Failures are raised as `LlmError`."""
        return ResponseStream(
            self._transport,
            self._profile,
            prepare=lambda: self._prepared(options),
            signal=options.signal,
        )

    def provider_info(self, provider: str) -> ProviderInfo:
        """The provider's name for people."""
        return ProviderInfo(provider, "DeepSeek" if provider == PROVIDER else provider)

    def provider_retry_policy(self, provider: str) -> RetryPolicy | None:  # noqa: ARG002 - one policy for all
        """The configured policy."""
        return self._profile.retry_policy

    async def resolve_model(
        self,
        provider: str,  # noqa: ARG002 - one catalogue for all
        model: str,
        signal: AbortSignal | None,  # noqa: ARG002 - nothing to wait for
    ) -> ModelInfo | None:
        """The facts of `model`; unlisted ones have the defaults."""
        return self._profile.model_info(model)

    def readiness(self, provider: str) -> LlmFailure | None:  # noqa: ARG002 - one key for all
        """Whether there is a key that can be sent; told without network."""
        try:
            self._key()
        except LlmError as error:
            return error.failure
        return None

    async def dispose(self) -> None:
        """Close the connections; later requests fail with `TRANSPORT`."""
        await self._transport.dispose()

    def _prepared(self, options: GenerateOptions) -> tuple[bytes, str, Translator]:
        key = self._key()
        effort = options.config.reasoning_effort or self._profile.default_effort
        if options.purpose == "session-title":
            effort = "off"
        body, messages = self._encoder.encode(options, effort)
        return body, key, Translator(_taken_ids(messages))

    def _key(self) -> str:
        name = self._profile.api_key_env
        raw = self._variable(name)
        if not raw:
            raise LlmError(
                f"no API key for DeepSeek: set the environment variable {name}",
                code="MISSING_CREDENTIAL",
            )
        return assert_usable_api_key(raw, package=PACKAGE, reference=name)


def _taken_ids(messages: list[Encoded]) -> Callable[[], frozenset[str]]:
    """The conversation's call ids, gathered when the first call of an answer asks."""

    @cache
    def taken() -> frozenset[str]:
        return frozenset(call_id for message in messages for call_id in message.calls)

    return taken
