"""Contexts: what a plugin gets to read services, listen, register and mount."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from ._bus import EventBus
from ._effects import Effect, EffectResult
from ._errors import ServiceAccessError
from ._fiber import Fiber
from ._kernel import Kernel
from ._keys import ServiceKey
from ._mount import mount
from ._services import Implementation, Realm
from ._tasks import Hosted

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NO_META: Mapping[str, object] = {}


class Context(EventBus):
    """A place in the tree: attributes, a fiber that owns what is registered, a view of services.

    `Context()` is a new root. Others come from `extend` and from mounting plugins.
    """

    __slots__ = (
        "__weakref__",
        "_kernel",
        "_meta",
        "realms",
        "root",
        "surfaces",
        "views",
    )
    root: Context
    surfaces: tuple[Fiber, ...]
    """Kernel use: the fibers whose injected services can be read here."""
    realms: dict[str, Realm]
    """Kernel use: the label that each service name has here."""
    views: dict[str, tuple[Implementation, Any]]
    """Kernel use: the bound services that this context has read."""

    def __init__(self) -> None:
        self._kernel = Kernel()
        self._events = self._kernel.events
        self._meta = _NO_META
        self.root = self
        self.realms = self._kernel.services.root_realms
        self.views = {}
        self.fiber = Fiber(self._kernel, None)
        self.fiber.ctx = self
        self.surfaces = (self.fiber,)

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
        return self._child(
            self.fiber, self.surfaces, {**self._meta, **meta} if meta else self._meta
        )

    def meta(self, name: str) -> object | None:
        """An own or inherited attribute, or None."""
        return self._meta.get(name)

    def of_fiber(self, fiber: Fiber) -> Context:
        """Kernel use: the context of a fiber mounted here."""
        return self._child(fiber, (fiber,), self._meta)

    def on_behalf(self, surface: Fiber) -> Context:
        """Kernel use: the `ctx` of a service's view: this owner and scope, that look-up."""
        owner = self.fiber
        surfaces = (owner,) if surface is owner else (surface, owner)
        return self._child(owner, surfaces, self._meta)

    def _child(
        self, fiber: Fiber, surfaces: tuple[Fiber, ...], meta: Mapping[str, object]
    ) -> Context:
        child: Context = object.__new__(type(self))
        child._kernel = self._kernel
        child._events = self._events
        child._meta = meta
        child.root = self.root
        child.realms = self.realms
        child.views = {}
        child.fiber = fiber
        child.surfaces = surfaces
        return child

    # -- services ---------------------------------------------------------------------------

    def __getitem__(self, key: ServiceKey[T]) -> T:
        """A service that this plugin injects. Raises ServiceAccessError if it may not read it."""
        return self._kernel.services.read(self, key.name)

    def get(self, key: ServiceKey[T]) -> T | None:
        """A service that may be missing: None unless its provider is active. Needs no inject."""
        implementation = self._kernel.services.find(self, key.name)
        return None if implementation is None else implementation.view(self)

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
        implementation = Implementation(key, value, self.fiber, available)
        services = self._kernel.services

        def withdraw() -> Awaitable[None] | None:
            holding = services.remove(realm, implementation)
            if not holding:
                implementation.drop_views()
                return None
            return _let_go(implementation, [fiber.released() for fiber in holding])

        try:
            realm = services.add(self, implementation)
        except BaseException:
            effect.forget()
            raise
        effect.attach(withdraw)
        return effect

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the untyped form, for notebooks and expressions
            if name.startswith("_") or name in ("then", "prototype"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if name in self._meta:
                return self._meta[name]
            try:
                return self._kernel.services.read(self, name)
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
        inject: Iterable[ServiceKey[Any]] = (),
        name: str | None = None,
        interpolate: Callable[[Context, object], object] | None = None,
    ) -> Fiber:
        """Mount a plugin below this context; its body runs one tick later, services permitting.

        `interpolate(ctx, raw)` is run on the configuration at each activation, before validation.
        Await the result to wait for the activation and to have its failure raised.
        """
        return mount(self, plugin, config, inject=inject, name=name, interpolate=interpolate)

    def inject(
        self,
        keys: Iterable[ServiceKey[Any]],
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
