"""Typed keys: what a service or an event is called, carries and how it is dispatched.

The dispatch mode is the key's class, so that a listener of the wrong shape fails the type check.
Keys are plain classes with `__slots__` rather than frozen dataclasses, because a generic frozen
slots dataclass cannot be instantiated on Python 3.11.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
)

from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from ._context import Context

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

Disposer: TypeAlias = Callable[[], Awaitable[None] | None]
"""Undoes one registration. Calling it again does nothing."""

Next: TypeAlias = Callable[[], Awaitable[R]]
"""The rest of an asynchronous waterfall. Call it once; not calling it vetoes everything inside."""

NextSync: TypeAlias = Callable[[], R]
"""The rest of a synchronous waterfall."""


class Target(Protocol):
    """Decides which listeners hear a dispatch, by the context that registered them.

    A target whose verdict changes only at moments that it knows may have an attribute `stable`: a
    hashable token, replaced at those moments. The kernel then asks it once per token, which keeps
    dispatch cheap where thousands of listeners are registered.
    """

    def accepts(self, ctx: Context, /) -> bool: ...


# Not state of a tree: the names in use, as `sys.intern` keeps text. Weak, so that it keeps nothing.
_INTERNED: Final[weakref.WeakValueDictionary[tuple[type, str], Key]] = weakref.WeakValueDictionary()


class Key:
    """A name of one kind. There is one object per kind and name, however often it is made.

    So keys compare and hash by identity, and a module imported again has the keys it had.
    """

    __slots__ = ("__weakref__", "name")
    name: str

    if not TYPE_CHECKING:  # checkers read what a key takes from its `__init__`

        def __new__(cls, name: str, *_args: object, **_options: object) -> Self:
            known = _INTERNED.get((cls, name))
            if known is None:
                known = _INTERNED.setdefault((cls, name), super().__new__(cls))
            return known

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ServiceKey(Key, Generic[T]):
    """Names a service and its type: `TOOLS = ServiceKey["ToolRegistry"]("tools")`.

    The name is snake_case: it is also the attribute `ctx.<name>` of notebooks and expressions.
    """

    __slots__ = ()


class EventKey(Key, Generic[*Ts]):
    """Base of the event keys. `*Ts` are the arguments; a product event has exactly one."""

    __slots__ = ("contained", "scoped")
    scoped: Callable[[*Ts], Target | None] | None
    """Derives the scope of a dispatch from its arguments; None means unfiltered."""
    contained: bool
    """Whether a raising listener is logged and skipped instead of reaching the dispatcher."""

    def __init__(
        self,
        name: str,
        *,
        scoped: Callable[[*Ts], Target | None] | UnsetType | None = UNSET,
        contained: bool | UnsetType = UNSET,
    ) -> None:
        """Without `scoped` nothing filters, without `contained` nothing is contained.

        Made again, the key takes what is given anew and keeps the rest: naming an event in passing
        does not take its owner's rules away.
        """
        known = hasattr(self, "contained")
        super().__init__(name)
        if not known:
            self.scoped = None
            self.contained = False
        if scoped is not UNSET:
            self.scoped = scoped
        if contained is not UNSET:
            self.contained = contained


class Emit(EventKey[*Ts]):
    """Called in order, results of asynchronous listeners are not awaited.

    A listener that raises stops the rest and reaches the emitter, unless the key is contained.
    """

    __slots__ = ()


class Parallel(EventKey[*Ts]):
    """All listeners run concurrently and are awaited; failures are raised as one group."""

    __slots__ = ()


class Serial(EventKey[*Ts], Generic[R, *Ts]):
    """Awaited in order until the first result that is neither None nor False."""

    __slots__ = ()


class Bail(EventKey[*Ts], Generic[R, *Ts]):
    """Called in order until the first result that is neither None nor False."""

    __slots__ = ()


class Waterfall(EventKey[*Ts], Generic[R, *Ts]):
    """Around-middleware: `async (*args, next) -> R`, outermost first, ending at `inner`."""

    __slots__ = ()


class SyncWaterfall(EventKey[*Ts], Generic[R, *Ts]):
    """Around-middleware without awaiting: `(*args, next) -> R`."""

    __slots__ = ()


AnyEventKey: TypeAlias = EventKey[*tuple[Any, ...]]
