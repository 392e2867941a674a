"""The kernel's own events, for loaders and other tools that compose plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ._keys import AnyEventKey, Bail, Emit, SyncWaterfall, Target, Waterfall

if TYPE_CHECKING:
    from ._context import Context  # noqa: F401 - named by the keys below
    from ._fiber import Fiber  # noqa: F401 - likewise
    from ._states import FiberState  # noqa: F401 - likewise


class Internal:
    """Keys of the events that the kernel dispatches about itself."""

    PLUGIN: Final = Emit["Fiber"]("internal/plugin")
    """A fiber was mounted (`uid` is a number) or disposed (`uid` is None). An observer of a mount
    may add to `fiber.inject`; if it raises, the mount is undone and the error reaches the mounter.
    """

    STATUS: Final = Emit["Fiber", "FiberState"]("internal/status", contained=True)
    """A fiber changed its state; the second argument is the old one."""

    CONFIG: Final = SyncWaterfall[object, "Fiber", object]("internal/config")
    """Around the raw configuration at each activation, before it is validated."""

    UPDATE: Final = Waterfall[None, "Fiber", object, bool]("internal/update")
    """Around a restart with new configuration: `(fiber, config, no_save, next)`. A plugin's own
    listener hears only its own fiber; not calling `next` accepts the configuration in place.
    """

    SERVICE: Final = Emit[str, object]("internal/service", contained=True)
    """A service became usable, or (value None) stopped being so. Heard where the name stands for
    the realm in which that happened.
    """

    GET: Final = SyncWaterfall[object, "Context", str]("internal/get")
    """Around each read of a service from a plugin's context, `ctx[KEY]` and `ctx.name` alike:
    `(ctx, name, next)`; `next()` raises ServiceAccessError for what may not be read. Reads that a
    listener makes itself are not wrapped.
    """

    SET: Final = SyncWaterfall[None, "Context", str, object]("internal/set")
    """Around each `ctx.set` from a plugin's context: `(ctx, name, value, next)`."""

    LISTENER: Final = Bail[Callable[[], None], AnyEventKey, Callable[..., Any], bool](
        "internal/listener"
    )
    """`(event, listener, prepend)` before each registration; a disposer replaces it."""

    DISPATCH: Final = Emit[str, str, tuple[Any, ...], Target | None]("internal/dispatch")
    """`(mode, name, args, target)` before each dispatch that is not internal. Raising blocks it.

    The target is the one given, or else the one that the key's own rule derives.
    """
