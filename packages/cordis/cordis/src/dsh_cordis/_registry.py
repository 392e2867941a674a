"""What is mounted: plugins with their fibers, and the services that they provide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MethodType
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from ._fiber import Fiber
    from ._services import ServiceTable


class Runtime:
    """One plugin object and the fibers that it was mounted as."""

    __slots__ = ("_fibers", "plugin")
    plugin: object
    """The object that was mounted."""

    def __init__(self, plugin: object) -> None:
        self.plugin = plugin
        self._fibers: dict[Fiber, None] = {}

    @property
    def fibers(self) -> tuple[Fiber, ...]:
        """Its fibers that are not disposed, in order of mounting."""
        return tuple(self._fibers)

    def add(self, fiber: Fiber) -> None:
        """Kernel use: one more mount."""
        self._fibers[fiber] = None

    def discard(self, fiber: Fiber) -> bool:
        """Kernel use: one less; whether that was the last."""
        self._fibers.pop(fiber, None)
        return not self._fibers


class Provided(msgspec.Struct, frozen=True, eq=False):
    """A service that can be used now."""

    name: str
    value: Any
    """The service itself, not a view."""
    fiber: Fiber
    """Provides it, and is active."""


class Registry(Mapping[object, Runtime]):
    """Mounted plugins of one tree, by the object that was mounted (compared by identity)."""

    __slots__ = ("_of", "_runtimes", "_services")

    def __init__(self, services: ServiceTable) -> None:
        self._runtimes: dict[object, Runtime] = {}
        self._of: dict[Fiber, Runtime] = {}
        self._services = services

    def __getitem__(self, plugin: object, /) -> Runtime:
        try:
            return self._runtimes[_identity(plugin)]
        except KeyError:
            raise KeyError(plugin) from None

    def __iter__(self) -> Iterator[object]:
        return iter(tuple(runtime.plugin for runtime in self._runtimes.values()))

    def __len__(self) -> int:
        return len(self._runtimes)

    async def delete(self, plugin: object) -> None:
        """Dispose every fiber of `plugin` and wait; does nothing if it is not mounted."""
        runtime = self.get(plugin)
        if runtime is None:
            return
        # All are asked before any is awaited: their cleanups overlap.
        for end in [fiber.dispose() for fiber in runtime.fibers]:
            await end

    def services(self) -> tuple[Provided, ...]:
        """The services of active plugins in all realms, in order of registration."""
        return tuple(
            Provided(one.key.name, one.value, one.fiber) for one in self._services.provided()
        )

    # -- for the kernel ---------------------------------------------------------------------

    def add(self, plugin: object, fiber: Fiber) -> None:
        """`fiber` was mounted."""
        identity = _identity(plugin)
        runtime = self._runtimes.get(identity)
        if runtime is None:
            runtime = self._runtimes[identity] = Runtime(plugin)
        runtime.add(fiber)
        self._of[fiber] = runtime

    def discard(self, fiber: Fiber) -> None:
        """`fiber` is on its way out."""
        runtime = self._of.pop(fiber, None)
        if runtime is not None and runtime.discard(fiber):
            del self._runtimes[_identity(runtime.plugin)]


def _identity(plugin: object) -> object:
    """Plugins need not be hashable; a bound method is a new object each time it is read."""
    if isinstance(plugin, MethodType):
        return id(plugin.__self__), plugin.__func__
    return id(plugin)
