"""Registries in layers: one for everyone, one for each scope that registered something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Generic, TypeVar

from ._chain import scope_chain_of, scope_of

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer, Effect

L = TypeVar("L", bound=Sized)
T = TypeVar("T")


class ScopedLayers(Generic[L]):
    """Layers of one registry. The global one always exists; a scoped one while it is not empty.

    `make` builds a layer. `notify(key)` is told after each change of the layer of `key` (None for
    the global one).
    """

    __slots__ = ("_make", "_notify", "_scoped", "global_layer")
    global_layer: L

    def __init__(
        self, make: Callable[[], L], *, notify: Callable[[object | None], None] | None = None
    ) -> None:
        self._make = make
        self._notify = notify
        self._scoped: dict[int, tuple[object, L]] = {}
        self.global_layer = make()

    def peek(self, key: object | None) -> L | None:
        """The layer of exactly this scope (None: the global one); None if it has none."""
        if key is None:
            return self.global_layer
        found = self._scoped.get(id(key))
        return None if found is None else found[1]

    def chain_layers(self, key: object | None) -> list[L]:
        """The layers that a reader in this scope sees: global, farthest ancestor, ..., its own."""
        layers = [self.global_layer]
        for one in reversed(scope_chain_of(key)):
            layer = self.peek(one)
            if layer is not None:
                layers.append(layer)
        return layers

    def merge(
        self, key: object | None, items: Callable[[L], Iterable[tuple[str, T]]]
    ) -> dict[str, T]:
        """The named entries that a reader in this scope sees; a nearer one replaces in place."""
        merged: dict[str, T] = {}
        for layer in self.chain_layers(key):
            merged.update(items(layer))
        return merged

    def effect(
        self,
        ctx: Context,
        action: Callable[[L], Callable[[], None]],
        *,
        label: str,
        notify: bool = True,
    ) -> Effect:
        """Change the layer of `ctx`'s scope for as long as `ctx`'s plugin lives.

        `action(layer)` makes the change and returns its undoing. A raising action or notification
        leaves nothing behind.
        """
        key = scope_of(ctx)

        def setup() -> Iterator[Disposer]:
            layer = self._layer(key)
            try:
                undo = action(layer)
            except BaseException:
                self._drop_if_empty(key)
                raise

            def revert() -> None:
                undo()
                self._drop_if_empty(key)
                if notify:
                    self._tell(key)

            yield revert  # held before the notification, so that its raising rolls back
            if notify:
                self._tell(key)

        return ctx.effect(setup, label)

    def _tell(self, key: object | None) -> None:
        if self._notify is not None:
            self._notify(key)

    def _layer(self, key: object | None) -> L:
        layer = self.peek(key)
        if layer is None:
            layer = self._make()
            self._scoped[id(key)] = (key, layer)
        return layer

    def _drop_if_empty(self, key: object | None) -> None:
        layer = self.peek(key)
        if key is not None and layer is not None and not len(layer):
            del self._scoped[id(key)]
