"""Scopes: tagged child contexts that own what is registered in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ._chain import SCOPE_ATTRIBUTE, bind_scope_parent, unbind_scope_parent

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer, Fiber


class Scope:
    """One scope. Registrations through `ctx` carry its key and end with it."""

    __slots__ = ("_fiber", "ctx", "key", "raw_dispose")
    ctx: Final[Context]
    key: Final[object]
    raw_dispose: Final[Disposer]
    """Requests the end; the exact disposer, for a body to yield where order matters."""

    def __init__(self, fiber: Fiber, key: object, raw_dispose: Disposer) -> None:
        self._fiber = fiber
        self.key = key
        self.ctx = fiber.ctx.extend(**{SCOPE_ATTRIBUTE: key})
        self.raw_dispose = raw_dispose

    async def dispose(self) -> None:
        """End it and wait until everything is undone; every caller waits for the same end."""
        await self._fiber.dispose()
        await self._fiber


def create_scope(ctx: Context, key: object, *, parent: object | None = None) -> Scope:
    """A scope below `ctx`, usable at once; it ends with the plugin that made it, or by `dispose`.

    The key is any object, by identity. With `parent`, the key is bound below it for that long.
    Services resolve as they do through `ctx`. Raises ScopeError if the key has a parent already.
    """
    if parent is not None:
        bind_scope_parent(key, parent)

    def hold(_ctx: Context, _config: object) -> Disposer | None:
        return None

    hold.__name__ = "<lambda>"  # no name of its own: errors name the plugin that made the scope
    try:
        fiber = ctx.plugin(hold)
    except BaseException:
        if parent is not None:
            unbind_scope_parent(key)
        raise
    if parent is not None:
        fiber.ctx.effect(lambda: lambda: unbind_scope_parent(key), "scope parent")
    mounted = fiber.mounted
    assert mounted is not None
    return Scope(fiber, key, mounted)
