"""The configuration of the provider and what it amounts to."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from dsh_cordis import ConfigError
from dsh_llm import (
    Effort,
    ModelInfo,
    NormalRetry,
    ReasoningInfo,
    RetryConfig,
    RetryPolicy,
)
from msgspec import UNSET, Meta, UnsetType

PROVIDER: Final = "deepseek-official"
DEFAULT_BASE_URL: Final = "https://api.deepseek.com"
BASE_URL_ENV: Final = "DEEPSEEK_BASE_URL"

_WITHHELD: Final = re.compile("KEY|PASSWORD|SECRET|TOKEN", re.IGNORECASE)
"""Names of variables that no command inherits, as dsh-subprocess has it."""

Tokens: TypeAlias = Annotated[int, Meta(gt=0, le=2**53 - 1)]
TimeoutMs: TypeAlias = Annotated[float, Meta(gt=0, le=2147483647)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]
EffortId: TypeAlias = Literal["off", "low", "high", "max"]

_EFFORTS: Final = (
    Effort("off", "Off", "answers without thinking first"),
    Effort("low", "Low", "thinks briefly"),
    Effort("high", "High", "thinks before it answers"),
    Effort("max", "Max", "thinks as long as it takes"),
)


class ModelEntry(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """One model of the catalogue; what is absent comes from the provider's own fields."""

    id: Annotated[Name, Meta(description="As requests name it.")]
    name: Annotated[Name | UnsetType, Meta(description="For people; the id if absent.")] = UNSET
    description: Annotated[str | UnsetType, Meta(description="What it is good for.")] = UNSET
    context_window: Annotated[
        Tokens | UnsetType,
        Meta(description="What prompt and answer may fill together.", extra={"unit": "tokens"}),
    ] = UNSET
    max_tokens: Annotated[Tokens | UnsetType, Meta(description="Output limit.")] = UNSET
    input_modalities: Annotated[tuple[Name, ...], Meta(description="What it can be sent.")] = (
        "text",
    )


class DeepSeekConfig(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """All optional: with a key in the environment nothing needs to be set."""

    api_key_env: Annotated[
        Name,
        Meta(
            description="The variable that holds the key, read at each request; never the key. "
            "With KEY, PASSWORD, SECRET or TOKEN in its name: those are withheld from commands."
        ),
    ] = "DEEPSEEK_API_KEY"
    base_url: Annotated[
        Name | UnsetType,
        Meta(
            description="Else `DEEPSEEK_BASE_URL` of the environment, else"
            " `https://api.deepseek.com`; `/chat/completions` is appended."
        ),
    ] = msgspec.field(name="baseURL", default=UNSET)
    thinking: Annotated[
        Literal["enabled", "disabled"],
        Meta(description="`disabled` leaves the effort `off` alone."),
    ] = "enabled"
    reasoning_effort: Annotated[
        EffortId | UnsetType,
        Meta(description="Of requests that name none; `high` unless thinking is disabled."),
    ] = UNSET
    max_tokens: Annotated[
        Tokens, Meta(description="Output limit of requests and models that name none.")
    ] = 256_000
    default_context_window: Annotated[
        Tokens, Meta(description="Of models that name none.", extra={"unit": "tokens"})
    ] = 1_000_000
    models: Annotated[
        tuple[ModelEntry, ...],
        Meta(description="Models with facts of their own; other ids are passed through."),
    ] = (ModelEntry(id="deepseek-v4-flash"), ModelEntry(id="deepseek-v4-pro"))
    stream_idle_timeout_ms: Annotated[
        TimeoutMs,
        Meta(
            description="How long the provider may be silent; keep-alive comments are a sign of"
            " life."
        ),
    ] = 300_000
    stream_total_timeout_ms: Annotated[
        TimeoutMs, Meta(description="How long one answer may take.")
    ] = 3_600_000
    connect_timeout_ms: Annotated[
        TimeoutMs, Meta(description="How long a connection may take.")
    ] = 30_000
    retry_policy: Annotated[
        RetryConfig | UnsetType, Meta(description="When a failed request is made again.")
    ] = UNSET


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A checked configuration, resolved once for the life of the plugin."""

    api_key_env: str
    base_url: str
    host: str
    is_tls: bool
    is_loopback: bool
    default_effort: str
    efforts: tuple[Effort, ...]
    max_tokens: int
    context_window: int
    models: dict[str, ModelEntry]
    idle_timeout_ms: float
    total_timeout_ms: float
    connect_timeout_ms: float
    retry_policy: RetryPolicy

    def model_info(self, model: str) -> ModelInfo:
        """The facts of `model`, listed or not."""
        entry = self.models.get(model) or ModelEntry(id=model)
        return ModelInfo(
            provider=PROVIDER,
            id=model,
            name=model if entry.name is UNSET else entry.name,
            description=entry.description,
            input_modalities=entry.input_modalities,
            context_window=(
                self.context_window if entry.context_window is UNSET else entry.context_window
            ),
            default_max_tokens=self.max_tokens if entry.max_tokens is UNSET else entry.max_tokens,
            reasoning=ReasoningInfo(self.efforts, self.default_effort),
        )


def resolve_profile(config: DeepSeekConfig, environment_base_url: str | None) -> Profile:
    """`config` with the environment's base URL where it has none.

    Raises `ConfigError` for a base URL that is none, an effort without thinking, two models of
    one id, a contradictory retry policy, and a key in a variable that commands inherit.
    """
    disabled = config.thinking == "disabled"
    effort = config.reasoning_effort
    if disabled and effort not in (UNSET, "off"):
        raise ConfigError(
            f"reasoningEffort {effort!r} needs thinking: enable it or set the effort to 'off'"
        )
    if _WITHHELD.search(config.api_key_env) is None:
        raise ConfigError(
            f"apiKeyEnv {config.api_key_env!r}: commands would see that variable; choose a name "
            "with KEY, PASSWORD, SECRET or TOKEN in it, which are withheld from them"
        )
    models = {entry.id: entry for entry in config.models}
    if len(models) != len(config.models):
        raise ConfigError("models names an id twice")
    named, base_url = "baseURL", config.base_url
    if base_url is UNSET:
        named, base_url = BASE_URL_ENV, environment_base_url or DEFAULT_BASE_URL
    base_url, host, is_tls = _endpoint(base_url, named)
    default = "off" if disabled else "high"
    retry = config.retry_policy
    return Profile(
        api_key_env=config.api_key_env,
        base_url=base_url,
        host=host,
        is_tls=is_tls,
        is_loopback=_is_loopback(host),
        default_effort=default if effort is UNSET else effort,
        efforts=_EFFORTS[:1] if disabled else _EFFORTS,
        max_tokens=config.max_tokens,
        context_window=config.default_context_window,
        models=models,
        idle_timeout_ms=config.stream_idle_timeout_ms,
        total_timeout_ms=config.stream_total_timeout_ms,
        connect_timeout_ms=config.connect_timeout_ms,
        retry_policy=NormalRetry() if retry is UNSET else retry.resolve(),
    )


def _endpoint(base_url: str, named: str) -> tuple[str, str, bool]:
    """The URL without trailing slashes, its host, whether it is TLS."""
    base_url = base_url.strip()
    try:
        parts = urlsplit(base_url if _clean_url(base_url) else "")
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        # The value stays out of the text: people paste URLs that hold a secret.
        raise ConfigError(f"{named} must be an http or https URL without query")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{named} must not hold a user or password; the key goes in a variable")
    return base_url.rstrip("/"), host, parts.scheme == "https"


def _clean_url(text: str) -> bool:
    # urlsplit drops line breaks silently, and the HTTP client fails over the rest at each request.
    return text.isprintable() and not any(map(str.isspace, text))


def _is_loopback(host: str) -> bool:
    """Whether `host` is this machine, in any of the spellings that systems understand."""
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress  # only here, and only where the host is not a name
    import socket

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))  # 127.1 and the like
        except OSError:
            return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified
