"""Mounting: a plugin below a context becomes a fiber."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ._fiber import Fiber
from ._internal import Internal
from ._plugin import normalise

if TYPE_CHECKING:
    from ._context import Context
    from ._keys import ServiceKey


def mount(
    ctx: Context,
    plugin: object,
    config: object,
    *,
    inject: Iterable[ServiceKey[Any]],
    name: str | None,
    interpolate: Callable[[Context, object], object] | None,
) -> Fiber:
    """Make a fiber of `plugin` and start it. Raises what an observer of the mount raises.

    Raises RuntimeError without a running event loop: its body runs in a task.
    """
    record = normalise(plugin)
    asyncio.get_running_loop()
    if name is not None:
        record = msgspec.structs.replace(record, name=name)
    parent = ctx.fiber
    mounted = parent.register("ctx.plugin()")
    fiber = Fiber(parent.kernel, parent, plugin=record, config=config, interpolate=interpolate)
    fiber.inject.update((key.name, key) for key in inject)
    fiber.ctx = ctx.of_fiber(fiber)
    fiber.mounted = mounted
    mounted.attach(fiber.end_with_parent)
    try:
        ctx.emit(Internal.PLUGIN, fiber)
    except BaseException:
        fiber.dispose()
        raise
    fiber.begin()
    return fiber
