"""Which service a name stands for in a context, and who has to hear when that changes.

Look-up goes from the name to the realm that the context gives it, and from the realm to the
implementation registered there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ._errors import CordisError, ServiceAccessError, ServiceExistsError
from ._internal import Internal
from ._report import log_failure
from ._service import Service, bind, unwrap

if TYPE_CHECKING:
    from ._accessors import Accessor
    from ._context import Context
    from ._events import EventTable
    from ._fiber import Fiber
    from ._keys import ServiceKey


_MIN_PRUNED: Final = 64
"""How many readers an implementation remembers before it looks for those that are gone."""


class Realm:
    """Where a name is looked up: contexts that give it the same realm share an implementation."""

    __slots__ = ("__weakref__", "isolated", "name")
    isolated: bool
    """Whether it is another than the root's: then children do not inherit what is read in it."""

    def __init__(self, name: str, *, isolated: bool) -> None:
        self.name = name
        self.isolated = isolated


class RealmTarget:
    """Admits the listeners of contexts that look a name up in one realm."""

    __slots__ = ("_realm", "_table")

    def __init__(self, table: ServiceTable, realm: Realm) -> None:
        self._table = table
        self._realm = realm

    def accepts(self, ctx: Context) -> bool:
        """Whether `ctx` could see what changed."""
        return self._table.realm(ctx, self._realm.name) is self._realm


class Implementation:
    """One provided value."""

    __slots__ = ("_holders", "_prune_at", "available", "ctx", "fiber", "key", "value")
    ctx: Context
    """The context that provided it: a service's look-ups go through it, whoever calls."""

    def __init__(
        self,
        key: ServiceKey[Any],
        value: object,
        ctx: Context,
        available: Callable[[Context], bool] | None,
    ) -> None:
        self.key = key
        self.value = unwrap(value)
        self.ctx = ctx
        self.fiber = ctx.fiber
        self.available = available
        # Not a WeakSet, which costs several times as much for each reader.
        self._holders: dict[weakref.ref[Context], None] = {}
        self._prune_at = _MIN_PRUNED

    def admits(self, ctx: Context) -> bool:
        """Whether its availability predicate, if any, agrees that `ctx` sees it."""
        if self.available is None:
            return True
        try:
            return bool(self.available(ctx))
        except Exception as error:  # noqa: BLE001 - containment: a broken predicate means absent
            log_failure(self.fiber, f"availability of {self.key.name}", error)
            return False

    def view(self, ctx: Context) -> Any:  # noqa: ANN401 - the key types it where it is read
        """The value as `ctx` gets it: services are bound to the caller, other values are shared."""
        held = ctx.views.get(self.key.name)
        if held is not None and held[0] is self:
            return held[1]
        value = self.value
        if isinstance(value, Service):
            value = bind(value, ctx, self.ctx)
        ctx.views[self.key.name] = (self, value)
        self._hold(ctx)
        return value

    def _hold(self, ctx: Context) -> None:
        if len(self._holders) >= self._prune_at:
            self._holders = {one: None for one in self._holders if one() is not None}
            self._prune_at = max(_MIN_PRUNED, 2 * len(self._holders))
        self._holders[weakref.ref(ctx)] = None

    def drop_views(self) -> None:
        """Let every context forget it."""
        holders, self._holders = self._holders, {}
        for holder in holders:
            ctx = holder()
            if ctx is None:
                continue
            held = ctx.views.get(self.key.name)
            if held is not None and held[0] is self:
                ctx.forget(self.key.name)


class ServiceTable:
    """The implementations of one context tree and the fibers that wait for them."""

    __slots__ = (
        "_dependents",
        "_events",
        "_implementations",
        "_labels",
        "_roots",
        "_wrapping",
        "accessors",
        "epoch",
    )
    accessors: dict[str, Accessor]
    """What contexts have as attributes beside services."""
    epoch: object
    """Replaced whenever a read that succeeded before could give something else."""

    def __init__(self, events: EventTable) -> None:
        self._events = events
        self._roots: dict[str, Realm] = {}
        self._labels: weakref.WeakValueDictionary[tuple[str, str], Realm] = (
            weakref.WeakValueDictionary()
        )
        self._implementations: dict[Realm, Implementation] = {}
        self._dependents: dict[Realm, dict[Fiber, None]] = {}
        self._wrapping = False
        self.accessors = {}
        self.epoch = object()

    def invalidate(self) -> None:
        """Make every context look again."""
        self.epoch = object()

    # -- realms -----------------------------------------------------------------------------

    def realm(self, ctx: Context, name: str) -> Realm:
        """Where `ctx` looks `name` up."""
        realm = ctx.isolated.get(name) if ctx.isolated else None
        if realm is None:
            realm = self._roots.get(name)
        if realm is None:
            realm = self._roots[name] = Realm(name, isolated=False)
        return realm

    def other_realm(self, name: str, label: str | None) -> Realm:
        """The realm of that name and label, or a new one that nobody else can name."""
        if label is None:
            return Realm(name, isolated=True)
        realm = self._labels.get((name, label))
        if realm is None:
            realm = self._labels[name, label] = Realm(name, isolated=True)
        return realm

    # -- reading ----------------------------------------------------------------------------

    def find(self, ctx: Context, name: str, *, inactive: bool = False) -> Implementation | None:
        """What a dependent in `ctx` may use now; `inactive`: or could, were its provider active."""
        if ctx.behalf is not None:
            found = self._visible(ctx.behalf, ctx, name, inactive=inactive)
            if found is not None:
                return found
        return self._visible(ctx, ctx, name, inactive=inactive)

    def _visible(
        self, place: Context, reader: Context, name: str, *, inactive: bool
    ) -> Implementation | None:
        found = self._implementations.get(self.realm(place, name))
        if found is None or not (inactive or found.fiber.active):
            return None
        return found if found.available is None or found.admits(reader) else None

    def locate(self, ctx: Context, name: str) -> Implementation:
        """The service that `ctx` has a right to read. Raises ServiceAccessError otherwise."""
        found = self._injected(ctx, name)
        if found is not None:
            return found
        if ctx.fiber.parent is not None:
            raise ServiceAccessError(
                f'cannot get property "{name}" without inject', code="SERVICE_NOT_INJECTED"
            )
        found = self.find(ctx, name)
        if found is None:
            raise ServiceAccessError(
                f'no active plugin provides service "{name}"', code="SERVICE_INACTIVE"
            )
        return found

    def read_around(self, ctx: Context, name: str) -> Any:  # noqa: ANN401 - the key types it where it is read
        """Read with the listeners of `internal/get` around it."""

        def inner() -> object:
            return self.locate(ctx, name).view(ctx)

        if self._wrapping:  # a listener's own read
            return inner()
        self._wrapping = True
        try:
            return ctx.waterfall_sync(Internal.GET, ctx, name, inner=inner)
        finally:
            self._wrapping = False

    def _injected(self, ctx: Context, name: str) -> Implementation | None:
        """What the fibers above have; a service's own first when it looks up for a caller."""
        if ctx.behalf is not None:
            found = self._injected(ctx.behalf, name)
            if found is not None:
                return found
        realm = self.realm(ctx, name)
        fiber: Fiber | None = ctx.fiber
        while fiber is not None:
            found = fiber.snapshot.get(realm)
            if found is not None:
                return found
            if name in fiber.inject and self.realm(fiber.ctx, name) is realm:
                raise ServiceAccessError(
                    f'cannot get required service "{name}" in inactive context',
                    code="SERVICE_INACTIVE",
                )
            fiber = None if realm.isolated else fiber.parent
        return None

    # -- providing --------------------------------------------------------------------------

    def provided(self) -> tuple[Implementation, ...]:
        """Everything that active fibers provide, in all realms, in order of registration."""
        return tuple(one for one in self._implementations.values() if one.fiber.active)

    def provides(self, name: str) -> bool:
        """Whether any realm has a service of that name."""
        return any(realm.name == name for realm in self._implementations)

    def add(self, implementation: Implementation) -> Realm:
        """Register. Raises CordisError if the realm has one already."""
        name = implementation.key.name
        realm = self.realm(implementation.ctx, name)
        present = self._implementations.get(realm)
        if present is not None:
            raise ServiceExistsError(name, present.fiber.name)
        if name in self.accessors:
            raise CordisError(
                f'property "{name}" is already declared as accessor', code="ACCESSOR_EXISTS"
            )
        self._implementations[realm] = implementation
        implementation.fiber.snapshot[realm] = implementation
        self.invalidate()
        if implementation.fiber.active:
            self._announce(realm, implementation, implementation.value)
        return realm

    def assign(self, ctx: Context, name: str, value: object) -> None:
        """Replace what `ctx`'s plugin provides, with the listeners of `internal/set` around it.

        Raises CordisError unless it provides that, or the name is an accessor that can be set.
        """

        def inner() -> None:
            accessor = self.accessors.get(name)
            if accessor is not None and accessor.set is not None:
                accessor.set(ctx, value)
            else:
                self._replace(ctx, name, value)

        if ctx.fiber.parent is not None and self._events.heard(Internal.SET):
            ctx.waterfall_sync(Internal.SET, ctx, name, value, inner=inner)
        else:
            inner()

    def _replace(self, ctx: Context, name: str, value: object) -> None:
        present = self._implementations.get(self.realm(ctx, name))
        if present is None:
            raise CordisError(f'cannot set property "{name}" without provide', code="NOT_PROVIDED")
        if present.fiber is not ctx.fiber:
            raise CordisError(f'cannot set property "{name}" in multiple fibers', code="NOT_OWNER")
        present.value = unwrap(value)
        present.drop_views()

    def remove(self, realm: Realm, implementation: Implementation) -> list[Fiber]:
        """Unregister and tell dependents; returns those that still hold it."""
        if self._implementations.get(realm) is implementation:
            del self._implementations[realm]
        fiber = implementation.fiber
        if fiber.snapshot.get(realm) is implementation:
            del fiber.snapshot[realm]
        self.invalidate()
        self._announce(realm, implementation, None)
        return [
            one
            for one in self._dependents.get(realm, ())
            if one.snapshot.get(realm) is implementation
        ]

    def activity_changed(self, fiber: Fiber) -> None:
        """Re-evaluate the dependents of everything `fiber` provides."""
        for realm, implementation in tuple(fiber.snapshot.items()):
            if implementation.fiber is not fiber:
                continue
            self.invalidate()
            self._announce(realm, implementation, implementation.value if fiber.active else None)

    def _announce(self, realm: Realm, implementation: Implementation, value: object) -> None:
        for dependent in tuple(self._dependents.get(realm, ())):
            dependent.dependency_changed()
        if self._events.heard(Internal.SERVICE):
            target = RealmTarget(self, realm)
            implementation.ctx.emit(Internal.SERVICE, realm.name, value, target=target)

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

    def resolve(self, fiber: Fiber) -> dict[Realm, Implementation] | None:
        """Everything that `fiber` injects, by realm, or None while something is missing."""
        found: dict[Realm, Implementation] = {}
        for name in fiber.inject:
            realm = self.realm(fiber.ctx, name)
            one = self._implementations.get(realm)
            if one is None or not one.fiber.active or not one.admits(fiber.ctx):
                return None
            found[realm] = one
        return found

    def let_go(self, fiber: Fiber) -> None:
        """The unload of `fiber` is over: what it could read until now is out of its reach."""
        if fiber.snapshot:
            fiber.snapshot.clear()
            self.invalidate()
        fiber.ctx.forget_all()
