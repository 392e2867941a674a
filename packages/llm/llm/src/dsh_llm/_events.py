"""Keys of the model runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec
from dsh_cordis import Emit, ServiceKey, Waterfall

from ._chunks import StreamChunk
from ._request import GenerateOptions, Provider

if TYPE_CHECKING:
    from ._runtime import LlmRuntime


class AdaptersUpdated(msgspec.Struct, frozen=True):
    """Routes were added, removed or replaced; `providers` are those that are there now."""

    providers: tuple[Provider, ...]


LLM: ServiceKey[LlmRuntime] = ServiceKey("llm")
LLM_STREAM = Waterfall[AsyncIterator[StreamChunk], GenerateOptions]("llm/stream")
"""Around every request. `next()` resolves to the adapter's own iterator: return it as it is, wrap
it, or answer from elsewhere without calling `next`. What a listener raises reaches the caller."""
LLM_ADAPTERS_UPDATED = Emit[AdaptersUpdated]("llm/adapters-updated", contained=True)
"""After routes were added, replaced or removed."""
