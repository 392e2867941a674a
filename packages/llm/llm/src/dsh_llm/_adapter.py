"""What a provider package implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ._models import ModelInfo, ProviderInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dsh_cordis import AbortSignal

    from ._chunks import StreamChunk
    from ._failures import LlmFailure
    from ._request import GenerateOptions, Provider
    from ._retry import RetryPolicy


class Adapter(ABC):
    """Speaks to one kind of provider, for one or more routes.

    One `stream` is one attempt: libraries' own retries are off. Arguments of calls are passed on
    as the raw text the model sent, the signal is obeyed, options that the provider cannot honour
    are refused rather than dropped.
    """

    reads_replay_state: ClassVar[bool] = True
    """Whether it reads `ModelSource.replay_state`. It then gets its own alone, for which each
    request looks through the whole conversation; False spares that."""

    @abstractmethod
    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """The answer to one request. Does no work before the first chunk is asked for.

        Fails by raising, or with a last chunk whose reason is `Failed` or `Aborted`. If the
        iterator has `aclose`, it is called when the consumer leaves early.
        """

    def provider_info(self, provider: Provider) -> ProviderInfo:
        """How the route is shown; its id unless overridden."""
        return ProviderInfo(provider, provider)

    def provider_retry_policy(self, provider: Provider) -> RetryPolicy | None:  # noqa: ARG002 - the route is for those who override
        """How failures of the route are retried; None means the defaults."""
        return None

    async def resolve_model(
        self,
        provider: Provider,  # noqa: ARG002 - the arguments are for those who override
        model: str,  # noqa: ARG002
        signal: AbortSignal | None,  # noqa: ARG002
    ) -> ModelInfo | None:
        """The facts of exactly this model, or None if the adapter knows none."""
        return None

    def readiness(self, provider: Provider) -> LlmFailure | None:  # noqa: ARG002 - as above
        """Why a request would fail for certain, told without any network; None if nothing is."""
        return None
