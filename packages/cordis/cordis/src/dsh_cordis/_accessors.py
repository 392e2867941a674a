"""Attributes that a plugin gives to every context: computed ones, and members of its service.

They exist for the untyped `ctx.<name>` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ._errors import CordisError

if TYPE_CHECKING:
    from ._context import Context
    from ._effects import Effect
    from ._keys import Disposer, ServiceKey
    from ._services import ServiceTable


class Accessor(msgspec.Struct, frozen=True, eq=False):
    """How one attribute is read and, if it can be, set."""

    get: Callable[[Context], Any]
    set: Callable[[Context, Any], None] | None


def declare(ctx: Context, services: ServiceTable, name: str, accessor: Accessor) -> Effect:
    """The attribute `name` of every context until `ctx`'s fiber unloads."""
    return ctx.effect(lambda: _add(services, type(ctx), name, accessor), f'ctx.accessor("{name}")')


def forward(
    ctx: Context,
    services: ServiceTable,
    key: ServiceKey[Any],
    names: Iterable[str] | Mapping[str, str],
) -> Effect:
    """Members of a service as attributes of every context, all of them or none."""
    renamed: Mapping[str, str] = (
        cast("Mapping[str, str]", names) if isinstance(names, Mapping) else {n: n for n in names}
    )

    def setup() -> Iterator[Disposer]:
        for member, name in renamed.items():
            accessor = Accessor(partial(_read, key, member), partial(_write, key, member))
            yield _add(services, type(ctx), name, accessor)

    return ctx.effect(setup, f'ctx.mixin("{key.name}")')


def _read(key: ServiceKey[Any], member: str, ctx: Context) -> Any:  # noqa: ANN401 - whatever the member is
    # Through the reading context, so that a forwarded method knows its caller.
    return getattr(ctx[key], member)


def _write(key: ServiceKey[Any], member: str, ctx: Context, value: object) -> None:
    setattr(ctx[key], member, value)


def _add(
    services: ServiceTable, contexts: type[Context], name: str, accessor: Accessor
) -> Callable[[], None]:
    kind = None
    if name in services.accessors:
        kind = "accessor"
    elif services.provides(name):
        kind = "service"
    elif hasattr(contexts, name):
        kind = "a member of every context"
    if kind is not None:
        raise CordisError(
            f'property "{name}" is already declared as {kind}', code="ACCESSOR_EXISTS"
        )
    services.accessors[name] = accessor
    services.invalidate()

    def undo() -> None:
        if services.accessors.get(name) is accessor:
            del services.accessors[name]

    return undo
