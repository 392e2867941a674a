"""What a model is asked: call configuration, tool schemas, the whole request."""

from __future__ import annotations

from typing import Literal, NewType, TypeAlias

import msgspec
from dsh_cordis import AbortSignal
from dsh_lossless_json import FrozenDict
from msgspec import UNSET, UnsetType

from ._messages import Message

Provider: TypeAlias = str
"""A provider route, such as `deepseek-official`."""

SessionId = NewType("SessionId", str)


class LlmCallConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Which model and how. Absent fields are the adapter's to fill."""

    provider: Provider
    model: str
    reasoning_effort: str | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    stop: tuple[str, ...] | UnsetType = UNSET


class AdapterDefaults(msgspec.Struct, frozen=True, rename="camel"):
    """Which fields of a configuration the adapter filled."""

    reasoning_effort: Literal[True] | UnsetType = UNSET
    max_tokens: Literal[True] | UnsetType = UNSET


class ToolSchema(msgspec.Struct, frozen=True, rename="camel"):
    """All that a model sees of a tool; `parameters` is an object JSON schema."""

    name: str
    description: str
    parameters: FrozenDict


class GenerateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one model."""

    config: LlmCallConfig
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    signal: AbortSignal | None = None
    session_id: SessionId | None = None
    purpose: Literal["loop", "compaction", "session-title"] = "loop"
