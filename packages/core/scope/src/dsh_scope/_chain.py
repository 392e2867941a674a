"""Scope keys: their parents, and which listeners a dispatch to a key reaches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ._errors import ScopeError

if TYPE_CHECKING:
    from dsh_cordis import Context, Target

SCOPE_ATTRIBUTE: Final = "dsh_scope"
"""The context attribute that holds the nearest scope's key."""


class ScopeTarget:
    """Admits untagged listeners and those tagged with the key or one of its ancestors."""

    __slots__ = ("_key", "_keys", "stable")
    stable: object
    """The kernel remembers whom it admits until this token changes, which a moved key does."""

    def __init__(self, key: Callable[[], object | None]) -> None:
        self._key = key
        self.retire()

    def accepts(self, ctx: Context, /) -> bool:
        """Whether listeners registered through `ctx` hear it."""
        tag = ctx.meta(SCOPE_ATTRIBUTE)
        if tag is None:
            return True
        keys = self._keys
        if keys is None:
            chain = scope_chain_of(self._key())
            keys = self._keys = tuple(_node(one).key for one in chain)
        return any(key() is tag for key in keys)

    def retire(self) -> None:
        """Something above the key moved."""
        self._keys: tuple[Callable[[], object | None], ...] | None = None
        self.stable = object()


class _Node:
    """What is known about one key. Holds its own key weakly, its parent's strongly."""

    __slots__ = ("__weakref__", "bound", "children", "key", "parent", "target")

    def __init__(self, key: Callable[[], object | None]) -> None:
        self.key = key
        self.bound = False
        self.parent: object | None = None
        self.children: weakref.WeakSet[_Node] = weakref.WeakSet()
        self.target = ScopeTarget(key)

    def retire(self) -> None:
        """Let the targets that a changed parent concerns look again."""
        self.target.retire()
        for child in self.children:
            child.retire()


# Facts about keys, as weak as attributes on them would be: keys are foreign objects of any type,
# compared by identity, so neither an attribute nor a WeakKeyDictionary can carry them.
_NODES: Final[dict[int, _Node]] = {}
_FLAT_TARGET: Final = ScopeTarget(lambda: None)


def scope_of(ctx: Context) -> object | None:
    """The key of the nearest scope that `ctx` is in, or None."""
    return ctx.meta(SCOPE_ATTRIBUTE)


def scope_target(key: object | None) -> Target:
    """The target of a dispatch to `key`, always the same; None reaches untagged listeners only."""
    return _FLAT_TARGET if key is None else _node(key).target


def bind_scope_parent(key: object, parent: object) -> Callable[[object | None], None]:
    """Put `key` below `parent`; the result alone can move it (None takes it out).

    Raises ScopeError if `key` has been bound before, or on a cycle.
    """
    node = _node(key)
    if node.bound:
        raise ScopeError(
            f"scope {key!r} is already bound: move it with what its first bind returned",
            code="SCOPE_BOUND",
        )
    _move(key, parent)
    node.bound = True

    def rebind(parent: object | None) -> None:
        _move(key, parent)

    return rebind


def unbind_scope_parent(key: object) -> None:
    """Take `key` out of its parent and let it be bound again."""
    _move(key, None)
    _node(key).bound = False


def scope_parent_of(key: object) -> object | None:
    """The parent of `key`, or None."""
    node = _NODES.get(id(key))
    return None if node is None else node.parent


def scope_chain_of(key: object | None) -> tuple[object, ...]:
    """`key` and its ancestors, nearest first; empty for None."""
    return tuple(_upward(key))


def _upward(key: object | None) -> Iterator[object]:
    while key is not None:
        yield key
        key = scope_parent_of(key)


def _move(key: object, parent: object | None) -> None:
    if any(one is key for one in _upward(parent)):
        raise ScopeError(f"scope {key!r} cannot be below itself", code="SCOPE_CYCLE")
    node = _node(key)
    if node.parent is not None:
        _node(node.parent).children.discard(node)
    node.parent = parent
    if parent is not None:
        _node(parent).children.add(node)
    node.retire()


def _node(key: object) -> _Node:
    found = _NODES.get(id(key))
    if found is None:
        found = _NODES[id(key)] = _Node(_reference(key))
    return found


def _reference(key: object) -> Callable[[], object | None]:
    identity = id(key)
    try:
        return weakref.ref(key, lambda _: _NODES.pop(identity, None))
    except TypeError:  # such as object(): then the key lives as long as the process
        return lambda: key
