"""Contexts: what a plugin gets to read services, listen, register and mount."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

from ._accessors import Accessor, declare, forward
from ._bus import EventBus
from ._effects import Effect, EffectResult
from ._errors import ServiceAccessError
from ._fiber import Fiber
from ._internal import Internal
from ._kernel import Kernel
from ._keys import ServiceKey
from ._mount import mount
from ._plugin import Injected, Injection
from ._registry import Registry
from ._services import Implementation, Realm
from ._settling import waiting_for
from ._tasks import Hosted

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NOTHING: Final[Mapping[str, Any]] = {}


class Context(EventBus):
    """A place in the tree: attributes, a fiber that owns what is registered, a view of services.

    `Context()` is a new root. Others come from `extend`, `isolate`, `intercept` and from mounting
    plugins.
    """

    __slots__ = (
        "__weakref__",
        "_epoch",
        "_interceptions",
        "_kernel",
        "_meta",
        "_reads",
        "_services",
        "behalf",
        "isolated",
        "root",
        "views",
    )
    root: Context
    behalf: Context | None
    """Kernel use: the context of the service whose method looks up here for a caller."""
    isolated: Mapping[str, Realm]
    """Kernel use: the names that are looked up elsewhere than the root looks them up."""
    views: dict[str, tuple[Implementation, Any]]
    """Kernel use: the services that this context has read, bound to it."""

    def __init__(self) -> None:
        self._kernel = Kernel()
        self._events = self._kernel.events
        self._services = self._kernel.services
        self._meta = _NOTHING
        self._interceptions: Mapping[str, Mapping[str, object]] = _NOTHING
        self._reads: dict[object, Any] = {}
        self._epoch: object = None
        self.root = self
        self.behalf = None
        self.isolated = _NOTHING
        self.views = {}
        self.fiber = Fiber(self._kernel, None)
        self.fiber.ctx = self

    def __repr__(self) -> str:
        return f"<Context of {self.fiber!r}>"

    async def __aenter__(self) -> Context:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.root.fiber.dispose()

    # -- children ---------------------------------------------------------------------------

    def extend(self, **meta: object) -> Context:
        """A child with attributes of its own and the same fiber."""
        child: Context = self._child()
        if meta:
            child._meta = {**self._meta, **meta}
        return child

    def meta(self, name: str) -> object | None:
        """An own or inherited attribute, or None."""
        return self._meta.get(name)

    def isolate(self, key: ServiceKey[Any], label: str | None = None) -> Context:
        """A child with the same fiber in which `key` stands for another service than here.

        It is provided and injected apart from everywhere else: everywhere that is isolated under
        the same label shares it, without one only what is below the result.
        """
        return self._with_realm(self._services.other_realm(key.name, label))

    def intercept(self, key: ServiceKey[Any], config: Mapping[str, object]) -> Context:
        """A child with the same fiber in which the service of `key` is told `config`.

        What the service makes of it is up to its methods, which read `self.ctx.interception(key)`.
        """
        child: Context = self._child()
        child._intercept(key, config)
        return child

    def interception(self, key: ServiceKey[Any]) -> Mapping[str, object]:
        """What `intercept` and `inject` say here for the service of `key`; the nearest wins."""
        return self._interceptions.get(key.name, _NOTHING)

    def of_fiber(self, fiber: Fiber, needs: Injection) -> Context:
        """Kernel use: the context of a fiber mounted here."""
        child: Context = self._child()
        child.fiber = fiber
        child.behalf = None
        for key, config in needs.items():
            if config:
                child._intercept(key, config)
        return child

    def on_behalf(self, provider: Context) -> Context:
        """Kernel use: the `ctx` of a service's view: this owner and scope, that look-up."""
        child: Context = self._child()
        same = provider.fiber is self.fiber and provider.isolated is self.isolated
        child.behalf = None if same else provider
        return child

    def _child(self) -> Context:
        child: Context = object.__new__(type(self))
        child._kernel = self._kernel
        child._events = self._events
        child._services = self._services
        child._meta = self._meta
        child._interceptions = self._interceptions
        child._reads = {}
        child._epoch = None
        child.root = self.root
        child.behalf = self.behalf
        child.isolated = self.isolated
        child.views = {}
        child.fiber = self.fiber
        return child

    def _with_realm(self, realm: Realm) -> Context:
        child: Context = self._child()
        child.isolated = {**self.isolated, realm.name: realm}
        if self.behalf is not None:  # a service's method isolates its own look-ups too
            child.behalf = self.behalf._with_realm(realm)  # noqa: SLF001 - of this class
        return child

    def _intercept(self, key: ServiceKey[Any], config: Mapping[str, object]) -> None:
        merged = {**self.interception(key), **config}
        self._interceptions = {**self._interceptions, key.name: merged}

    # -- services ---------------------------------------------------------------------------

    def __getitem__(self, key: ServiceKey[T]) -> T:
        """A service that this plugin injects. Raises ServiceAccessError if it may not read it."""
        if self._epoch is self._services.epoch:
            try:
                return self._reads[key]
            except KeyError:
                pass
        return self._read(key, key.name)

    def get(self, key: ServiceKey[T], *, inactive: bool = False) -> T | None:
        """A service that may be missing: None unless its provider is active. Needs no inject.

        `inactive` gives it also while its provider is loading or unloading.
        """
        implementation = self._services.find(self, key.name, inactive=inactive)
        return None if implementation is None else implementation.view(self)

    def _read(self, slot: object, name: str) -> Any:  # noqa: ANN401 - the key types it where it is read
        services = self._services
        if self.fiber.parent is not None and self._events.heard(Internal.GET):
            return services.read_around(self, name)
        implementation = services.locate(self, name)
        value = implementation.view(self)
        if implementation.available is None:
            if self._epoch is not services.epoch:
                self._reads.clear()
                self._epoch = services.epoch
            self._reads[slot] = value
        return value

    def forget(self, name: str) -> None:
        """Kernel use: that service has gone."""
        del self.views[name]
        self._reads.clear()

    def forget_all(self) -> None:
        """Kernel use: this context's plugin has unloaded."""
        self.views.clear()
        self._reads.clear()

    def provide(
        self,
        key: ServiceKey[T],
        value: T,
        *,
        available: Callable[[Context], bool] | None = None,
    ) -> Effect:
        """Register a service; others see it while this fiber is active.

        `available` is asked once per dependent; false or raising means absent. Disposing waits
        until the dependents have let go. Raises SERVICE_EXISTS on a second one of that name.
        """
        effect = self.fiber.register(f'ctx.provide("{key.name}")')
        implementation = Implementation(key, value, self, available)
        services = self._services

        def withdraw() -> Awaitable[None] | None:
            holding = services.remove(realm, implementation)
            if holding:
                # Who owns the provider waits for it, and would be waited for in vain.
                above = waiting_for(implementation.fiber)
                holding = [fiber for fiber in holding if fiber not in above]
            if not holding:
                implementation.drop_views()
                return None
            return _let_go(implementation, [fiber.released() for fiber in holding])

        try:
            realm = services.add(implementation)
        except BaseException:
            effect.forget()
            raise
        effect.attach(withdraw)
        return effect

    def set(self, key: ServiceKey[T], value: T) -> None:
        """Replace what this plugin provides as `key`; dependents are not told and stay loaded.

        Raises NOT_PROVIDED, or NOT_OWNER if another plugin provides it.
        """
        self._services.assign(self, key.name, value)

    def accessor(
        self,
        name: str,
        get: Callable[[Context], Any],
        set: Callable[[Context, Any], None] | None = None,  # noqa: A002 - read as `accessor(name, get=..., set=...)`
    ) -> Effect:
        """Give every context the attribute `ctx.<name>`, computed by `get(ctx)`.

        `ctx.set(ServiceKey(name), value)` calls `set(ctx, value)`. Raises ACCESSOR_EXISTS on a name
        that is an accessor or a service already.
        """
        return declare(self, self._services, name, Accessor(get, set))

    def mixin(self, key: ServiceKey[Any], names: Iterable[str] | Mapping[str, str]) -> Effect:
        """Give every context members of a service as attributes; a mapping renames them.

        They are read through the reading context, which has to inject the service. Raises
        ACCESSOR_EXISTS as `accessor` does; then none of them is there.
        """
        return forward(self, self._services, key, names)

    @property
    def registry(self) -> Registry:
        """What is mounted in this tree."""
        return self._kernel.registry

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the untyped form, for notebooks and expressions
            if name[0] != "_" and self._epoch is self._services.epoch:
                try:
                    return self._reads[name]
                except KeyError:
                    pass
            return self._attribute(name)

        def _attribute(self, name: str) -> Any:  # noqa: ANN401 - likewise
            if name.startswith("_") or name.isdigit() or name in ("then", "prototype"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if name in self._meta:
                return self._meta[name]
            try:
                accessor = self._services.accessors.get(name)
                return self._read(name, name) if accessor is None else accessor.get(self)
            except ServiceAccessError:
                if self.fiber.parent is None:
                    return None
                raise

    # -- plugins and effects ----------------------------------------------------------------

    def plugin(
        self,
        plugin: object,
        config: object = None,
        *,
        inject: Injected = (),
        name: str | None = None,
        interpolate: Callable[[Context, object], object] | None = None,
    ) -> Fiber:
        """Mount a plugin below this context; its body runs one tick later, services permitting.

        `inject` adds to what the plugin itself injects. `interpolate(ctx, raw)` is run on the
        configuration at each activation, before validation. Await the result to wait for the
        activation and to have its failure raised.
        """
        return mount(self, plugin, config, inject=inject, name=name, interpolate=interpolate)

    def inject(
        self,
        keys: Injected,
        callback: Callable[[Context], EffectResult],
    ) -> Fiber:
        """Mount `callback(ctx)` as a child that lives while those services do."""

        def body(ctx: Context, _config: object) -> EffectResult:
            return callback(ctx)

        body.__name__ = getattr(callback, "__name__", "<lambda>")
        return mount(self, body, None, inject=keys, name=None, interpolate=None)

    def effect(self, execute: Callable[[], EffectResult], label: str = "anonymous") -> Effect:
        """Run a setup now and own its undoing. Await the result if the setup is asynchronous.

        Raises what the setup raised, after undoing its part; INACTIVE_EFFECT on a fiber that is
        disposed or unloading; TypeError if the result is no disposer.
        """
        effect = self.fiber.register(label)
        effect.open(execute)
        return effect

    def spawn(
        self,
        fn: Callable[[*Ts], Awaitable[T]],
        *args: *Ts,
        stop: Callable[[], object] | None = None,
        name: str | None = None,
    ) -> asyncio.Task[T | None]:
        """Start `fn(*args)` as a task that ends with this fiber; a failure is logged.

        Unload cancels it, or calls `stop` instead if there is one, and waits for its end. It runs
        with the context variables of the root, not of the caller. A cancelled task returns None.
        """
        return self.fiber.tasks.spawn(fn, args, stop=stop, name=name)

    async def host(self, cm: AbstractAsyncContextManager[T]) -> T:
        """Enter `cm` and keep it until this fiber unloads, in one task for both ends."""
        effect = self.fiber.register("ctx.host()")
        hosted = Hosted(self.fiber)
        effect.attach(hosted.close)
        try:
            return await hosted.enter(cm, name=f"host of {type(cm).__name__}")
        except BaseException:
            effect()
            raise


async def _let_go(implementation: Implementation, waits: list[asyncio.Future[None]]) -> None:
    for future in waits:
        # asyncio.wait: a cancelled waiter must not cancel what others may wait for too.
        await asyncio.wait({future})
    implementation.drop_views()
