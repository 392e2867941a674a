"""What every change of the tree has in common: importing, mounting and taking down rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from dsh_cordis import FiberState, ServiceKey, plugin_failure

from ._entry import ENTRY_META, Entry, Members
from ._events import ENTRY_INIT, PARTIAL_DISPOSE, PATCH_CONTEXT
from ._failures import failed
from ._rows import Row

if TYPE_CHECKING:
    from dsh_cordis import Context

    from ._errors import LoaderError
    from ._scope import ExpressionScope

TREE_AT_REST: Final = ServiceKey[bool]("loader_rest")
"""Held rows wait for it; only those that were released see it."""

Resolve = Callable[[str], tuple[object, str | None]]
"""From a row's name to the plugin and the module that it came from."""


class Mounter:
    """Mounts rows below a loader. Knows which rows are starting right now."""

    def __init__(self, own: Context, scope: ExpressionScope, resolve: Resolve) -> None:
        self.scope = scope
        self._own = own
        self._resolve = resolve
        self._importing: str | None = None
        self._begun: dict[str, Entry] = {}
        self._gate: object | None = None

    @property
    def starting(self) -> tuple[str, ...]:
        """Ids of rows whose import or body runs, the latest first. For any thread."""
        importing = self._importing
        begun = [
            entry.id
            for entry in reversed(list(self._begun.values()))
            if (fiber := entry.fiber) is not None and fiber.state is FiberState.LOADING
        ]
        return tuple(begun) if importing is None else (importing, *begun)

    def entry(self, members: Members, row: Row) -> Entry:
        """A new entry for a row of that list."""
        entry = Entry(members.prefix + row.id, row, members)
        self._own.emit(ENTRY_INIT, entry)
        return entry

    def load(self, entry: Entry, row: Row) -> tuple[object, str | None]:
        """Import what the row names. Raises LoaderError (`IMPORT_FAILED`, `UNKNOWN_PLUGIN`)."""
        self._importing = entry.id
        try:
            return self._resolve(row.name)
        except BaseException as error:  # noqa: BLE001 - containment: told of its row
            failure = plugin_failure(error)
            raise failed("import", entry.id, row, failure) from failure
        finally:
            self._importing = None

    def mount(self, entry: Entry, *, action: str = "apply") -> LoaderError | None:
        """Mount the entry's plugin; the error of one that no fiber can be made of."""
        members, row = entry.within, entry.row
        if not members.running:
            return None
        owner = members.owner
        entry.gates = {**owner.gates} if owner is not None else {}
        for name in row.inject:
            entry.gates[name] = ServiceKey[Any](name)
        gates = [*entry.gates.values()]
        entry.held = _held(entry)
        if entry.held:
            self._install_gate()
            gates.append(TREE_AT_REST)
        try:
            fiber = self._context(entry).plugin(
                entry.plugin,
                row.config,
                inject=gates,
                name=entry.id,
                interpolate=self._interpolation(entry),
            )
            # An observer of the mount may have disposed it.
            entry.fiber = fiber if fiber.uid is not None else None
        except Exception as error:  # noqa: BLE001 - containment: a plugin object of any kind may be refused
            return failed(action, entry.id, row, error)
        return None

    def take_down(self, entry: Entry, *, again: bool) -> asyncio.Future[None] | None:
        """Request the end of the entry's fiber; what to wait for if it had one."""
        fiber = entry.fiber
        if fiber is None:
            return None
        # Forgotten before it ends: nobody takes this for a plugin that disposes itself.
        entry.fiber = entry.members = None
        self._begun.pop(entry.id, None)
        self._own.emit(PARTIAL_DISPOSE, entry, entry.row, again)
        fiber.dispose()
        return fiber.inertia

    def release(self, entries: Sequence[Entry]) -> bool:
        """Let held rows go. Whether there were any."""
        held = [entry for entry in entries if entry.held and entry.fiber is not None]
        for entry in held:
            entry.held = False
            if entry.fiber is not None and entry.fiber.state is FiberState.PENDING:
                entry.fiber.restart()
        return bool(held)

    def _context(self, entry: Entry) -> Context:
        ctx = entry.within.ctx.extend(**{ENTRY_META: entry})
        row = entry.row
        if (
            not row.isolate
            and not row.intercept
            and not self._own.reaches(PATCH_CONTEXT, entry, ctx)
        ):
            return ctx

        def patched() -> Context:
            result = ctx
            for name, label in row.isolate.items():
                key = ServiceKey[Any](name)
                result = result.isolate(key, None if label is True else label)
            for name, settings in row.intercept.items():
                result = result.intercept(ServiceKey[Any](name), settings)
            return result

        return self._own.waterfall_sync(PATCH_CONTEXT, entry, ctx, inner=patched)

    def _interpolation(self, entry: Entry) -> Callable[[Context, object], object]:
        # What a carrier holds are rows: their expressions are theirs to evaluate.
        literal = getattr(entry.plugin, "literal_config", False)

        def fill(ctx: Context, raw: object) -> object:
            # Moved to the end: the body runs right after this.
            self._begun.pop(entry.id, None)
            self._begun[entry.id] = entry
            return raw if literal else self.scope.fill(entry.row, ctx, ctx.fiber.inject, raw)

        return fill

    def _install_gate(self) -> None:
        if self._gate is None:
            self._gate = self._own.provide(TREE_AT_REST, True, available=_released)  # noqa: FBT003 - the value of a service


def _released(ctx: Context) -> bool:
    entry = ctx.meta(ENTRY_META)
    return isinstance(entry, Entry) and not entry.held


def _held(entry: Entry) -> bool:
    """Whether the row or its plugin asks to wait for all others."""
    inject: object = getattr(entry.plugin, "inject", ())
    if not entry.row.intercept and type(inject) is tuple:
        return False
    settings: list[Mapping[str, object]] = [entry.row.intercept.get("loader", {})]
    if isinstance(inject, Mapping):
        for key, value in cast("Mapping[ServiceKey[Any], Mapping[str, object]]", inject).items():
            if key.name == "loader":
                settings.append(value)
    return any(one.get("await") is True for one in settings)
