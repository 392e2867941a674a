"""Mounting: a plugin below a context becomes a fiber."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ._fiber import Fiber
from ._internal import Internal
from ._plugin import Injected, injection, normalise

if TYPE_CHECKING:
    from ._context import Context


def mount(
    ctx: Context,
    plugin: object,
    config: object,
    *,
    inject: Injected,
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
    needs = record.inject
    if inject:
        needs = {**needs, **injection(inject, f"mount of {record.name or plugin!r}")}
    mounted = parent.register("ctx.plugin()")
    fiber = Fiber(parent.kernel, parent, plugin=record, config=config, interpolate=interpolate)
    fiber.inject.update((key.name, key) for key in needs)
    fiber.ctx = ctx.of_fiber(fiber, needs)
    fiber.mounted = mounted
    mounted.attach(fiber.end_with_parent)
    parent.kernel.registry.add(plugin, fiber)
    try:
        ctx.emit(Internal.PLUGIN, fiber)
    except BaseException:
        fiber.dispose()
        raise
    fiber.begin()
    return fiber
