"""The adapter registry and the way to a model."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from dsh_cordis import Finding, NoConfig, Service
from msgspec import UNSET, UnsetType

from ._adapter import Adapter
from ._dispatch import (
    AdapterStream,
    DeferredStream,
    replace_config,
    single_chunk,
    without_foreign_replay,
)
from ._events import LLM, LLM_ADAPTERS_UPDATED, LLM_STREAM, AdaptersUpdated
from ._failures import LlmError, LlmFailure
from ._models import ModelInfo, ProviderInfo, check_model_info, fill_defaults
from ._normalize import failure_of, terminal_chunk
from ._retry import NormalRetry, RetryPolicy

if TYPE_CHECKING:
    from dsh_cordis import AbortSignal, Context, Disposer

    from ._chunks import StreamChunk
    from ._request import AdapterDefaults, GenerateOptions, LlmCallConfig, Provider

_log = logging.getLogger("dsh.llm")


class _Route(msgspec.Struct, frozen=True, eq=False):
    """One registered provider: everything that a call needs, captured when it registered."""

    adapter: Adapter
    info: ProviderInfo
    retry_policy: RetryPolicy


class AdapterRegistration:
    """Holds the routes of one `register_adapter` call. Calling it releases them."""

    __slots__ = ("_adapter", "_owned", "_release", "_runtime", "disposed")
    disposed: bool

    def __init__(self, runtime: LlmRuntime, adapter: Adapter) -> None:
        self._runtime = runtime
        self._adapter = adapter
        self._owned: tuple[Provider, ...] = ()
        self._release: Disposer | None = None
        self.disposed = False

    def replace(self, providers: Iterable[Provider]) -> None:
        """Serve `providers` instead of the present ones, at once and all or none.

        Captures each route's info and retry policy anew; no provider at all is legal. Raises
        `LlmError`: `REGISTRATION_DISPOSED`, `INVALID_ADAPTER` or `DUPLICATE_ADAPTER`.
        """
        if self.disposed:
            raise LlmError("this registration was released", code="REGISTRATION_DISPOSED")
        self._swap(self._runtime._captured(self._adapter, tuple(providers), self._owned))  # noqa: SLF001 - the registration is the registry's handle

    def __call__(self) -> Awaitable[None] | None:
        """Release the routes; a second call does nothing."""
        return self._release() if self._release is not None else None

    def _swap(self, routes: dict[Provider, _Route]) -> None:
        owned, self._owned = self._owned, tuple(routes)
        self._runtime._commit(owned, routes)  # noqa: SLF001 - as above

    def _dispose(self) -> None:
        self.disposed = True
        if self._owned:
            self._swap({})


class PreparedCall(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One request's route, resolved once: later changes of the registry do not touch it."""

    config: LlmCallConfig
    """What was asked for, with the adapter's defaults filled in."""
    retry_policy: RetryPolicy
    adapter_defaults: AdapterDefaults
    """Which fields of `config` the adapter filled."""
    context_window: int | UnsetType
    input_modalities: tuple[str, ...] | UnsetType
    _dispatch: Callable[[GenerateOptions], AsyncIterator[StreamChunk]]
    _used: list[bool] = msgspec.field(default_factory=list[bool])

    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """The one dispatch of this call. Failures of the adapter become the last chunk.

        Raises `LlmError` with `INVALID_PREPARED_CALL`, at once, if it was used before or if
        `options.config` is not `config`.
        """
        if self._used:
            raise LlmError("a prepared call is for one request", code="INVALID_PREPARED_CALL")
        if options.config != self.config:
            raise LlmError(
                "the request's configuration differs from the prepared one",
                code="INVALID_PREPARED_CALL",
            )
        self._used.append(True)
        return self._dispatch(options)


class LlmRuntime(Service):
    """Adapters by provider route, and requests through them."""

    provides = LLM
    Config = NoConfig
    name = "dsh-llm"

    def __init__(self, ctx: Context, config: NoConfig | None = None) -> None:
        super().__init__(ctx, config)
        self._routes: dict[Provider, _Route] = {}

    def register_adapter(
        self, providers: Iterable[Provider], adapter: Adapter
    ) -> AdapterRegistration:
        """Serve `providers` with `adapter` until the caller's plugin unloads, all or none.

        Raises `LlmError`: `INVALID_ADAPTER` for no provider, an empty name or unusable metadata,
        `DUPLICATE_ADAPTER` for a name that is taken or given twice.
        """
        wanted = tuple(providers)
        if not wanted:
            raise LlmError("an adapter needs at least one provider", code="INVALID_ADAPTER")
        routes = self._captured(adapter, wanted, ())
        registration = AdapterRegistration(self, adapter)

        def serve() -> Disposer:
            registration._swap(routes)  # noqa: SLF001 - the registry made it
            return registration._dispose  # noqa: SLF001

        registration._release = self.ctx.effect(serve, f"model adapter {', '.join(wanted)}")  # noqa: SLF001
        return registration

    def list_providers(self) -> tuple[ProviderInfo, ...]:
        """The routes, in the order of their registration."""
        return tuple(route.info for route in self._routes.values())

    def provider_retry_policy(self, provider: Provider) -> RetryPolicy:
        """The policy of `provider`. Raises `LlmError` with `NO_ADAPTER`."""
        return self._route(provider).retry_policy

    async def resolve_model_info(
        self, provider: Provider, model: str, signal: AbortSignal | None = None
    ) -> ModelInfo | None:
        """What the adapter knows of exactly this model, or None.

        Raises `LlmError`: `NO_ADAPTER`, or `INVALID_MODEL_INFO`, `INVALID_MODEL_CONTEXT`,
        `INVALID_MODEL_MAX_TOKENS`, `INVALID_MODEL_REASONING` for facts that cannot be right.
        """
        return await _model_info(self._route(provider), provider, model, signal)

    async def prepare_call(
        self, config: LlmCallConfig, signal: AbortSignal | None = None
    ) -> PreparedCall:
        """Resolve route, defaults and retry policy of one request.

        Raises `LlmError`: as `resolve_model_info`, and `UNSUPPORTED_REASONING_EFFORT`.
        """
        route = self._route(config.provider)
        info = await _model_info(route, config.provider, config.model, signal)
        filled, defaults = fill_defaults(config, info)
        return PreparedCall(
            config=filled,
            retry_policy=route.retry_policy,
            adapter_defaults=defaults,
            context_window=info.context_window if info else UNSET,
            input_modalities=info.input_modalities if info else UNSET,
            _dispatch=lambda options: self._through_listeners(
                options, lambda: self._adapter_stream(route, options)
            ),
        )

    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """One request, one attempt, through the `llm/stream` listeners to the adapter.

        Whatever the route, the adapter or its iterator raises becomes the last chunk, `Failed` or
        `Aborted`; what listeners raise is raised. Call `aclose` when leaving early.
        """
        return self._through_listeners(options, lambda: self._resolved_stream(options))

    def readiness(self, provider: Provider | None = None) -> LlmFailure | None:
        """Why a request to `provider` would fail for certain, told without network; else None.

        Without a provider: None if any route is ready, else the first route's reason.
        """
        if provider is not None:
            route = self._routes.get(provider)
            if route is None:
                return _no_adapter(provider, self._routes).failure
            return route.adapter.readiness(provider)
        first: LlmFailure | None = None
        for name, route in self._routes.items():
            reason = route.adapter.readiness(name)
            if reason is None:
                return None
            first = first or reason
        return first or LlmFailure("no model provider is configured", "NO_ADAPTER")

    def diagnose(self) -> Iterable[Finding]:
        """Whether each provider could be asked; nothing is sent."""
        if not self._routes:
            yield Finding("error", "models", "no model provider is configured")
        for name, route in self._routes.items():
            reason = route.adapter.readiness(name)
            if reason is None:
                yield Finding("ok", f"provider {name}", "has what a request needs")
            else:
                yield Finding("error", f"provider {name}", reason.message)

    def _through_listeners(
        self,
        options: GenerateOptions,
        open_adapter: Callable[[], AsyncIterator[StreamChunk]],
    ) -> AsyncIterator[StreamChunk]:
        async def inner() -> AsyncIterator[StreamChunk]:
            return open_adapter()

        return DeferredStream(lambda: self.own.waterfall(LLM_STREAM, options, inner=inner))

    def _resolved_stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """The adapter's stream of a request that nobody prepared."""

        async def resolve() -> AsyncIterator[StreamChunk]:
            config = options.config
            try:
                route = self._route(config.provider)
                info = await _model_info(route, config.provider, config.model, options.signal)
                filled, _ = fill_defaults(config, info)
            except Exception as error:  # noqa: BLE001 - containment: selection fails in band
                return single_chunk(terminal_chunk(failure_of(error), options.signal))
            return self._adapter_stream(route, replace_config(options, filled))

        return DeferredStream(resolve)

    def _adapter_stream(
        self, route: _Route, options: GenerateOptions
    ) -> AsyncIterator[StreamChunk]:
        routes = self._routes

        def kept(source: Provider) -> bool:
            known = routes.get(source)
            return known is not None and known.adapter is route.adapter

        if route.adapter.reads_replay_state:
            options = without_foreign_replay(options, kept)
        return AdapterStream(lambda: route.adapter.stream(options), options.signal)

    def _route(self, provider: Provider) -> _Route:
        route = self._routes.get(provider)
        if route is None:
            raise _no_adapter(provider, self._routes)
        return route

    def _captured(
        self, adapter: Adapter, providers: tuple[Provider, ...], owned: tuple[Provider, ...]
    ) -> dict[Provider, _Route]:
        """The routes of `providers`, everything checked before anything is changed."""
        routes: dict[Provider, _Route] = {}
        for provider in providers:
            if not provider:
                raise LlmError("a provider's name is empty", code="INVALID_ADAPTER")
            if provider in routes or (provider in self._routes and provider not in owned):
                raise LlmError(
                    f"provider {provider!r} has an adapter already", code="DUPLICATE_ADAPTER"
                )
            routes[provider] = _capture(adapter, provider)
        return routes

    def _commit(self, owned: tuple[Provider, ...], routes: dict[Provider, _Route]) -> None:
        """Swap in one step, so that nobody ever sees a registry without both."""
        kept = {name: route for name, route in self._routes.items() if name not in owned}
        self._routes = kept | routes
        self.own.emit(LLM_ADAPTERS_UPDATED, AdaptersUpdated(tuple(self._routes)))


def _capture(adapter: Adapter, provider: Provider) -> _Route:
    info = adapter.provider_info(provider)
    if info.provider != provider or not info.name:
        raise LlmError(
            f"the adapter of {provider!r} describes it as {info.provider!r}, {info.name!r}",
            code="INVALID_ADAPTER",
        )
    return _Route(adapter, info, adapter.provider_retry_policy(provider) or NormalRetry())


async def _model_info(
    route: _Route, provider: Provider, model: str, signal: AbortSignal | None
) -> ModelInfo | None:
    info = await route.adapter.resolve_model(provider, model, signal)
    if info is not None:
        check_model_info(info, provider, model)
    return info


def _no_adapter(provider: Provider, known: Iterable[Provider]) -> LlmError:
    there = ", ".join(known) or "none"
    return LlmError(f"no adapter for provider {provider!r}; there is {there}", code="NO_ADAPTER")
