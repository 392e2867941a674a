"""The entry tree: mounted rows, and how a new list of rows replaces the old one.

Every change is a transaction: all plugins are imported before anything is touched, outcomes are
awaited, and a failure restores what was there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dsh_cordis import CordisError, FiberState, ServiceKey

from ._errors import LoaderError
from ._rows import Row, walk_rows

if TYPE_CHECKING:
    from dsh_cordis import Context, Fiber

    from ._scope import ExpressionScope

Settle: TypeAlias = Callable[[], Awaitable[list[LoaderError]]]
"""Waits until the tree is at rest and returns what failed in it meanwhile."""

ENTRY_META: Final = "loader_entry"
"""Context attribute that holds the entry a plugin was mounted for."""


class Entry:
    """One row of the tree and the fiber that runs it. Read it; the loader changes it."""

    __slots__ = ("fiber", "id", "members", "plugin", "row")
    id: str
    """The row's id, after the ids of the includes around it: `outer:inner`."""
    row: Row
    fiber: Fiber | None
    """None while the row is disabled or its group is not running."""
    members: Members | None
    """The rows below it while it is a running group or include."""
    plugin: object

    def __init__(self, entry_id: str, row: Row) -> None:
        self.id = entry_id
        self.row = row
        self.fiber = None
        self.members = None
        self.plugin = None

    @property
    def missing_services(self) -> tuple[str, ...]:
        """The injected services that nobody provides now; empty for a row that is not mounted."""
        fiber = self.fiber
        if fiber is None:
            return ()
        return tuple(name for name, key in fiber.inject.items() if fiber.ctx.get(key) is None)


class Members:
    """The entries of one list of rows, mounted in one context."""

    __slots__ = ("ctx", "entries", "owner", "prefix")
    ctx: Context
    prefix: str
    entries: dict[str, Entry]
    owner: Entry | None
    """The group or include that holds them; None for the root list."""

    def __init__(self, ctx: Context, prefix: str, owner: Entry | None = None) -> None:
        self.ctx = ctx
        self.prefix = prefix
        self.entries = {}
        self.owner = owner

    @property
    def running(self) -> bool:
        """Whether rows can be mounted here; a group that stopped mounts its rows as it returns."""
        owner = self.owner
        if owner is None:
            return True
        return (
            owner.members is self
            and owner.fiber is not None
            and owner.fiber.state in (FiberState.LOADING, FiberState.ACTIVE)
        )

    def walk(self) -> list[Entry]:
        """Every entry, parents before what they hold."""
        result: list[Entry] = []
        for entry in self.entries.values():
            result.append(entry)
            if entry.members is not None:
                result.extend(entry.members.walk())
        return result


class _Kind(Enum):
    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"
    UPDATE = "update"
    KEEP = "keep"


class _Change:
    """What happens to one entry, with what is needed to take it back."""

    __slots__ = (
        "entry",
        "kind",
        "members",
        "old_plugin",
        "old_row",
        "plugin",
        "row",
        "touched",
        "was_failed",
    )

    def __init__(
        self, kind: _Kind, members: Members, entry: Entry, row: Row, *, plugin: object = None
    ) -> None:
        self.kind = kind
        self.members = members
        self.entry = entry
        self.row = row
        self.plugin = plugin
        self.old_row = entry.row
        self.old_plugin = entry.plugin
        self.was_failed = entry.fiber is not None and entry.fiber.state is FiberState.FAILED
        self.touched = False


class Transaction:
    """One reconciliation of one list of rows with what runs."""

    def __init__(self, scope: ExpressionScope, resolve: Callable[[str], object]) -> None:
        self._scope = scope
        self._resolve = resolve
        self._changes: list[_Change] = []
        self._old: list[tuple[Members, dict[str, Entry]]] = []
        self._started = False
        self._action = "apply"

    # -- planning: nothing running is touched -------------------------------------------------

    def plan(self, members: Members, rows: Sequence[Row]) -> None:
        """Note what turns `members` into `rows`. Imports what is new; raises LoaderError."""
        entries: dict[str, Entry] = {}
        for row in rows:
            entry = members.entries.get(row.id)
            if entry is None:
                entry = Entry(members.prefix + row.id, row)
            entries[row.id] = entry
            self._plan_entry(members, entry, row)
        for row_id, entry in members.entries.items():
            if row_id not in entries:
                self._changes.append(_Change(_Kind.REMOVE, members, entry, entry.row))
        self._old.append((members, members.entries))
        members.entries = entries

    def _plan_entry(self, members: Members, entry: Entry, row: Row) -> None:
        wanted, running, old = not self._scope.disabled(row), entry.fiber is not None, entry.row
        if not running:
            if wanted:
                plugin = self._import(entry, row)
                self._changes.append(_Change(_Kind.ADD, members, entry, row, plugin=plugin))
            else:
                self._changes.append(_Change(_Kind.KEEP, members, entry, row))
        elif not wanted:
            self._changes.append(_Change(_Kind.REMOVE, members, entry, row))
        elif (row.name, row.inject) != (old.name, old.inject):
            plugin = self._import(entry, row)
            self._changes.append(_Change(_Kind.REPLACE, members, entry, row, plugin=plugin))
        elif row.config != old.config:
            self._changes.append(_Change(_Kind.UPDATE, members, entry, row))
        else:
            self._changes.append(_Change(_Kind.KEEP, members, entry, row))
            if entry.members is not None and row.children is not None:
                self.plan(entry.members, row.children)

    def _import(self, entry: Entry, row: Row) -> object:
        try:
            return self._resolve(row.name)
        except (Exception, SystemExit) as error:
            raise _failed("import", entry, row, error) from error

    # -- executing ------------------------------------------------------------------------------

    async def execute(self, *, settle: Settle | None = None) -> None:
        """Do what was planned. Raises LoaderError if a row fails; `undo` then takes it back.

        `settle` waits for the whole tree and tells what failed in it: a row may start late, when
        another one has provided what it waits for.
        """
        self._started = True
        leaving = [c for c in self._changes if c.kind in (_Kind.REMOVE, _Kind.REPLACE)]
        for change in leaving:
            change.touched = change.entry.fiber is not None
        for change in self._changes:
            # Before anything moves: a group that starts meanwhile reads its rows here.
            change.entry.row = change.row
        await self._dispose([change.entry for change in leaving])
        failures: list[LoaderError] = []
        for change in self._changes:
            if change.kind in (_Kind.ADD, _Kind.REPLACE):
                change.entry.plugin = change.plugin
                self._mount(change, failures)
        for change in self._changes:
            if change.kind is _Kind.UPDATE:
                await self._update(change, failures)
        await self._outcomes(failures)
        if settle is not None and not failures:
            failures.extend(await settle())
        if failures:
            raise combine(failures)

    async def undo(self, *, settle: Settle) -> list[LoaderError]:
        """Put everything back and wait until it rests; returns what could not be."""
        for members, entries in reversed(self._old):
            members.entries = entries
        failures: list[LoaderError] = []
        if not self._started:
            return failures
        self._action = "rollback"
        for change in self._changes:
            change.entry.row, change.entry.plugin = change.old_row, change.old_plugin
        added = (_Kind.ADD, _Kind.REPLACE)
        await self._dispose([c.entry for c in reversed(self._changes) if c.kind in added])
        for change in self._changes:
            if change.kind in (_Kind.REMOVE, _Kind.REPLACE) and change.touched:
                self._mount(change, failures)
            elif change.kind is _Kind.UPDATE and change.touched:
                await self._update(change, failures)
        await self._outcomes(failures)
        late = await settle()
        return failures or late

    def _mount(self, change: _Change, failures: list[LoaderError]) -> None:
        entry, row = change.entry, change.entry.row
        if not change.members.running:
            return
        try:
            entry.fiber = change.members.ctx.extend(**{ENTRY_META: entry}).plugin(
                entry.plugin,
                row.config,
                inject=[ServiceKey[Any](name) for name in row.inject],
                name=entry.id,
                interpolate=self._interpolation(entry),
            )
        except Exception as error:  # noqa: BLE001 - containment: a plugin object of any kind may be refused
            failures.append(_failed(self._action, entry, row, error))

    def _interpolation(self, entry: Entry) -> Callable[[Context, object], object] | None:
        if getattr(entry.plugin, "literal_config", False):
            # What a carrier holds are rows: their expressions are theirs to evaluate.
            return None
        return lambda ctx, raw: self._scope.fill(entry.row, ctx, ctx.fiber.inject, raw)

    async def _update(self, change: _Change, failures: list[LoaderError]) -> None:
        fiber = change.entry.fiber
        if fiber is None or not change.members.running:
            return
        change.touched = True
        try:
            await fiber.update(change.entry.row.config)
        except Exception as error:  # noqa: BLE001 - containment: the transaction reports and undoes it
            if fiber.state is not FiberState.FAILED:
                # Refused before anything changed: the old instance runs on.
                change.touched = False
                failures.append(_failed(self._action, change.entry, change.entry.row, error))

    async def _outcomes(self, failures: list[LoaderError]) -> None:
        for change in self._changes:
            fiber = change.entry.fiber
            if fiber is None or (change.kind is _Kind.KEEP and change.was_failed):
                continue
            await fiber.quiet()
            if fiber.state is FiberState.FAILED and fiber.error is not None:
                failures.append(_failed(self._action, change.entry, change.entry.row, fiber.error))

    async def _dispose(self, entries: Sequence[Entry]) -> None:
        # Requested for all before any is awaited, so that they unload together.
        waits = [(entry.fiber, entry.fiber.dispose()) for entry in entries if entry.fiber]
        for entry in entries:
            entry.fiber = entry.members = None
        for fiber, wait in waits:
            await wait
            await fiber.quiet()


def entry_failure(entry: Entry) -> LoaderError | None:
    """Why the entry's plugin is FAILED, in the loader's words."""
    fiber = entry.fiber
    if fiber is None or fiber.state is not FiberState.FAILED or fiber.error is None:
        return None
    return _failed("apply", entry, entry.row, fiber.error)


async def settle(entries: Callable[[], list[Entry]]) -> None:
    """Wait until no entry's fiber is loading or unloading."""
    while True:
        busy = [e.fiber for e in entries() if e.fiber is not None and e.fiber.inertia is not None]
        if not busy:
            return
        for fiber in busy:
            await fiber.quiet()


def check_unique(rows: Sequence[Row]) -> None:
    """Raises LoaderError (`DUPLICATE_ID`) if two rows of a tree share an id."""
    seen: dict[str, Row] = {}
    for row in walk_rows(rows):
        other = seen.setdefault(row.id, row)
        if other is not row:
            origins = " and ".join(dict.fromkeys(filter(None, (other.origin, row.origin))))
            by = f" (from {origins})" if origins else ""
            raise LoaderError(f"duplicate loader entry id: {row.id}{by}", code="DUPLICATE_ID")


def combine(failures: Sequence[LoaderError]) -> LoaderError:
    """The only failure, or one error that lists several."""
    unique = list({str(failure): failure for failure in failures}.values())
    if len(unique) == 1:
        return unique[0]
    lines = "".join(f"\n  - {failure}" for failure in unique)
    error = LoaderError(f"loader entries failed to apply:{lines}", code="APPLY_FAILED")
    error.__cause__ = unique[0].__cause__
    return error


def _failed(action: str, entry: Entry, row: Row, error: BaseException) -> LoaderError:
    detail = str(error) if isinstance(error, CordisError) else f"{type(error).__name__}: {error}"
    codes = {"import": "IMPORT_FAILED", "apply": "APPLY_FAILED", "rollback": "ROLLBACK_FAILED"}
    code = codes[action]
    if isinstance(error, LoaderError) and error.code == "UNKNOWN_PLUGIN":
        code = error.code
    failure = LoaderError(
        f"failed to {action} loader entry {entry.id} ({row.name}): {detail}", code=code
    )
    failure.__cause__ = error
    return failure
