"""What an adapter knows about its routes and models."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ._failures import LlmError
from ._request import AdapterDefaults, LlmCallConfig, Provider


class ProviderInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A route as people see it."""

    provider: Provider
    name: str


class Effort(msgspec.Struct, frozen=True):
    """One level of reasoning. The id is the adapter's own word."""

    id: str
    name: str
    description: str | UnsetType = UNSET


class ReasoningInfo(msgspec.Struct, frozen=True, rename="camel"):
    """Which efforts a model takes, in the adapter's order."""

    efforts: tuple[Effort, ...]
    default_effort: str | UnsetType = UNSET


class ModelInfo(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The facts of one model on one route. Absent means that the adapter does not know."""

    provider: Provider
    id: str
    name: str
    description: str | UnsetType = UNSET
    input_modalities: tuple[str, ...] | UnsetType = UNSET
    """A list without `image` says that images are refused."""
    context_window: int | UnsetType = UNSET
    """Tokens that prompt and answer may fill together."""
    default_max_tokens: int | UnsetType = UNSET
    """Output limit of a request that names none."""
    reasoning: ReasoningInfo | UnsetType = UNSET


def check_model_info(info: ModelInfo, provider: Provider, model: str) -> None:
    """Refuse facts that are not about `model` of `provider`, or that contradict themselves.

    Raises `LlmError`: `INVALID_MODEL_INFO`, `INVALID_MODEL_CONTEXT`, `INVALID_MODEL_MAX_TOKENS`
    or `INVALID_MODEL_REASONING`.
    """
    where = f"the adapter of {provider!r} describes model {model!r}"
    if info.provider != provider or info.id != model or not info.name:
        found = f"provider {info.provider!r}, id {info.id!r}, name {info.name!r}"
        raise LlmError(f"{where} as {found}", code="INVALID_MODEL_INFO")
    if info.input_modalities is not UNSET and not all(info.input_modalities):
        raise LlmError(f"{where} with an empty input modality", code="INVALID_MODEL_INFO")
    if info.context_window is not UNSET and not _positive(info.context_window):
        found = f"a context window of {info.context_window!r} tokens"
        raise LlmError(f"{where} with {found}", code="INVALID_MODEL_CONTEXT")
    if info.default_max_tokens is not UNSET and not _positive(info.default_max_tokens):
        found = f"an output limit of {info.default_max_tokens!r} tokens"
        raise LlmError(f"{where} with {found}", code="INVALID_MODEL_MAX_TOKENS")
    if info.reasoning is not UNSET:
        _check_reasoning(info.reasoning, where)


def fill_defaults(
    config: LlmCallConfig, info: ModelInfo | None
) -> tuple[LlmCallConfig, AdapterDefaults]:
    """`config` with what it omits taken from `info`, and the marks of what was filled.

    What the caller names wins and is never clamped. Raises `LlmError` with
    `UNSUPPORTED_REASONING_EFFORT` for an effort that the model does not list.
    """
    reasoning = info.reasoning if info else UNSET
    effort, max_tokens = config.reasoning_effort, config.max_tokens
    if effort is not UNSET:
        _check_effort(effort, reasoning, config)
    elif reasoning is not UNSET:
        effort = reasoning.default_effort
    if max_tokens is UNSET and info:
        max_tokens = info.default_max_tokens
    defaults = AdapterDefaults(
        reasoning_effort=True if effort is not config.reasoning_effort else UNSET,
        max_tokens=True if max_tokens is not config.max_tokens else UNSET,
    )
    if defaults == _NOTHING_FILLED:
        return config, defaults
    filled = msgspec.structs.replace(config, reasoning_effort=effort, max_tokens=max_tokens)
    return filled, defaults


_NOTHING_FILLED = AdapterDefaults()


def _positive(value: object) -> bool:
    return type(value) is int and value > 0


def _check_reasoning(reasoning: ReasoningInfo, where: str) -> None:
    ids = [effort.id for effort in reasoning.efforts]
    if not ids or not all(ids) or len(set(ids)) != len(ids):
        raise LlmError(f"{where} with the efforts {ids!r}", code="INVALID_MODEL_REASONING")
    if reasoning.default_effort is not UNSET and reasoning.default_effort not in ids:
        found = f"{reasoning.default_effort!r}, which is none of {ids!r}"
        raise LlmError(f"{where} with the default effort {found}", code="INVALID_MODEL_REASONING")


def _check_effort(effort: str, reasoning: ReasoningInfo | UnsetType, config: LlmCallConfig) -> None:
    known = [] if reasoning is UNSET else [item.id for item in reasoning.efforts]
    if effort not in known:
        takes = f"takes {', '.join(known)}" if known else "takes no reasoning effort"
        raise LlmError(
            f"model {config.model!r} of {config.provider!r} {takes}, not {effort!r}",
            code="UNSUPPORTED_REASONING_EFFORT",
        )
