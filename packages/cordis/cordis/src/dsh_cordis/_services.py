"""Which service a name stands for in a context, and who has to hear when that changes.

Look-up goes from the name to the realm label that the context gives it, and from the label to the
implementation registered there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._errors import CordisError, ServiceAccessError
from ._internal import Internal
from ._report import log_failure
from ._service import Service, bind, unwrap

if TYPE_CHECKING:
    from ._context import Context
    from ._events import EventTable
    from ._fiber import Fiber
    from ._keys import ServiceKey


class Realm:
    """A label: contexts that give a name the same label share its implementation."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Implementation:
    """One provided value."""

    __slots__ = ("_holders", "available", "fiber", "key", "value")

    def __init__(
        self,
        key: ServiceKey[Any],
        value: object,
        fiber: Fiber,
        available: Callable[[Context], bool] | None,
    ) -> None:
        self.key = key
        self.value = unwrap(value)
        self.fiber = fiber
        self.available = available
        self._holders: weakref.WeakSet[Context] = weakref.WeakSet()

    def seen_from(self, ctx: Context) -> bool:
        """Whether `ctx` may see it: its fiber is active and its predicate, if any, agrees."""
        if not self.fiber.active:
            return False
        if self.available is None:
            return True
        try:
            return bool(self.available(ctx))
        except Exception as error:  # noqa: BLE001 - containment: a broken predicate means absent
            log_failure(self.fiber, f"availability of {self.key.name}", error)
            return False

    def view(self, ctx: Context) -> Any:  # noqa: ANN401 - the key types it where it is read
        """The value as `ctx` gets it: services are bound to the caller, other values are shared."""
        value = self.value
        if not isinstance(value, Service):
            return value
        held = ctx.views.get(self.key.name)
        if held is not None and held[0] is self:
            return held[1]
        view = bind(value, ctx, self.fiber)
        ctx.views[self.key.name] = (self, view)
        self._holders.add(ctx)
        return view

    def drop_views(self) -> None:
        """Let every context forget its view."""
        for ctx in tuple(self._holders):
            held = ctx.views.get(self.key.name)
            if held is not None and held[0] is self:
                del ctx.views[self.key.name]
        self._holders.clear()


class ServiceTable:
    """The implementations of one context tree and the fibers that wait for them."""

    __slots__ = ("_dependents", "_events", "_implementations", "root_realms")
    root_realms: dict[str, Realm]
    """The label that the root gives each name; minted on first use."""

    def __init__(self, events: EventTable) -> None:
        self._events = events
        self.root_realms = {}
        self._implementations: dict[Realm, Implementation] = {}
        self._dependents: dict[Realm, dict[Fiber, None]] = {}

    def realm(self, ctx: Context, name: str) -> Realm:
        """The label that `ctx` gives to `name`."""
        realm = ctx.realms.get(name)
        if realm is None:
            realm = self.root_realms[name] = Realm(name)
        return realm

    def find(self, ctx: Context, name: str) -> Implementation | None:
        """What a dependent in `ctx` may use now."""
        implementation = self._implementations.get(self.realm(ctx, name))
        if implementation is None or not implementation.seen_from(ctx):
            return None
        return implementation

    def read(self, ctx: Context, name: str) -> Any:  # noqa: ANN401 - the key types it where it is read
        """The service that `ctx` has a right to read. Raises ServiceAccessError otherwise."""
        for surface in ctx.surfaces:
            fiber: Fiber | None = surface
            while fiber is not None:
                implementation = fiber.snapshot.get(name)
                if implementation is not None:
                    return implementation.view(ctx)
                if name in fiber.inject:
                    raise ServiceAccessError(
                        f'cannot get required service "{name}" in inactive context',
                        code="SERVICE_INACTIVE",
                    )
                fiber = fiber.parent
        if ctx.fiber.parent is None:
            implementation = self.find(ctx, name)
            if implementation is None:
                raise ServiceAccessError(
                    f'no active plugin provides service "{name}"', code="SERVICE_INACTIVE"
                )
            return implementation.view(ctx)
        raise ServiceAccessError(
            f'cannot get property "{name}" without inject', code="SERVICE_NOT_INJECTED"
        )

    # -- providing --------------------------------------------------------------------------

    def add(self, ctx: Context, implementation: Implementation) -> Realm:
        """Register. Raises CordisError if the realm has one already."""
        name = implementation.key.name
        realm = self.realm(ctx, name)
        present = self._implementations.get(realm)
        if present is not None:
            raise CordisError(
                f'service "{name}" has been registered at <{present.fiber.name}>',
                code="SERVICE_EXISTS",
            )
        self._implementations[realm] = implementation
        implementation.fiber.snapshot[name] = implementation
        if implementation.fiber.active:
            self._announce(realm, implementation, implementation.value)
        return realm

    def remove(self, realm: Realm, implementation: Implementation) -> list[Fiber]:
        """Unregister and tell dependents; returns those that still hold it."""
        name = implementation.key.name
        if self._implementations.get(realm) is implementation:
            del self._implementations[realm]
        fiber = implementation.fiber
        if fiber.snapshot.get(name) is implementation:
            del fiber.snapshot[name]
        self._announce(realm, implementation, None)
        return [
            one
            for one in self._dependents.get(realm, ())
            if one.snapshot.get(name) is implementation
        ]

    def activity_changed(self, fiber: Fiber) -> None:
        """Re-evaluate the dependents of everything `fiber` provides."""
        for implementation in tuple(fiber.snapshot.values()):
            if implementation.fiber is not fiber:
                continue
            realm = self.realm(fiber.ctx, implementation.key.name)
            value = implementation.value if fiber.active else None
            self._announce(realm, implementation, value)

    def _announce(self, realm: Realm, implementation: Implementation, value: object) -> None:
        for dependent in tuple(self._dependents.get(realm, ())):
            dependent.dependency_changed()
        if self._events.heard(Internal.SERVICE):
            implementation.fiber.ctx.emit(Internal.SERVICE, implementation.key.name, value)

    # -- depending --------------------------------------------------------------------------

    def watch(self, fiber: Fiber) -> None:
        """Tell `fiber` when a service that it injects comes, goes or changes hands."""
        for name in fiber.inject:
            self._dependents.setdefault(self.realm(fiber.ctx, name), {})[fiber] = None

    def unwatch(self, fiber: Fiber) -> None:
        """Undo `watch`."""
        for name in fiber.inject:
            realm = self.realm(fiber.ctx, name)
            dependents = self._dependents.get(realm)
            if dependents is not None:
                dependents.pop(fiber, None)
                if not dependents:
                    del self._dependents[realm]

    def resolve(self, fiber: Fiber) -> dict[str, Implementation] | None:
        """Everything that `fiber` injects, or None while something is missing."""
        found: dict[str, Implementation] = {}
        for name in fiber.inject:
            implementation = self.find(fiber.ctx, name)
            if implementation is None:
                return None
            found[name] = implementation
        return found
