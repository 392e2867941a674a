"""The loader service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import msgspec
from dsh_cordis import FiberState, Internal, Service, ServiceKey

from ._editing import Editor
from ._entry import ENTRY_META, Entry, Members, RowSource, in_flight, settle
from ._entry_points import EntryPoints, scan_entry_points
from ._errors import LoaderError
from ._events import CONFIG_UPDATE
from ._failures import RowFailure, combine, entry_failure
from ._mounting import Mounter
from ._resolve import locate_plugin
from ._rows import Row
from ._scope import ExpressionScope, LoaderOptions
from ._start import TolerantStart
from ._store import RowStore
from ._transaction import Settle, Transaction, check_unique
from ._turns import Turns

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer, Fiber

LOADER: Final = ServiceKey["Loader"]("loader")
T = TypeVar("T")


class Loader(Service):
    """Keeps a tree of rows running: `await loader.apply(rows)` mounts, changes and removes.

    Rows of a list start concurrently; a row whose services are missing stays pending and blocks
    nobody. Changes follow each other; what waits for one must not be a plugin's body, for which
    the tree waits (`SELF_WAIT`): spawn a task for it.
    """

    provides: ClassVar = LOADER

    def __init__(self, ctx: Context, config: LoaderOptions | None = None) -> None:
        super().__init__(ctx, config)
        options = config or LoaderOptions()
        self._points = options.entry_points
        self._builtins: dict[str, object] = {}
        self._root = Members(ctx, "")
        self._turns = Turns(ctx)
        self._mounter = Mounter(ctx, ExpressionScope(options), self._resolve)
        self._editor = Editor(ctx, self._root, self._commit)
        self._starting: TolerantStart | None = None
        self._open_changes = 0

    # -- names ----------------------------------------------------------------------------------

    def builtin(self, name: str, plugin: object) -> Disposer:
        """Make `plugin` the row name `cordis:<name>`; undone with the caller."""

        def undo() -> None:
            self._builtins.pop(name, None)

        self._builtins[name] = plugin
        return self.ctx.effect(lambda: undo, "loader.builtin()")

    @property
    def entry_points(self) -> EntryPoints:
        """The installation that names are looked up in."""
        if self._points is None:
            self._points = scan_entry_points()
        return self._points

    def load(self, name: str) -> object:
        """The plugin that a row's `name` stands for, imported unless its module is loaded.

        Raises LoaderError (`UNKNOWN_PLUGIN`) and whatever the import raises.
        """
        return self._resolve(name)[0]

    # -- whole lists ----------------------------------------------------------------------------

    async def start_rows(
        self, rows: Sequence[Row], *, activation_timeout_ms: int | None = None
    ) -> tuple[RowFailure, ...]:
        """Make the tree equal `rows` and go on past what fails; tells what does not run.

        A row is left unmounted if its import or body fails, its id is taken, or it is not active
        after `activation_timeout_ms` milliseconds (None: it is waited for); pending if it lacks
        services. May be called again with other rows: equal ones that run go on. Returns nothing
        if the tree ends meanwhile.
        """

        async def change() -> tuple[RowFailure, ...]:
            self._starting = TolerantStart(self._mounter, activation_timeout_ms)
            try:
                failures = await self._starting.run(self._root, rows)
            finally:
                self._starting = None
            if not self._turns.alive:
                return ()
            self.own.emit(CONFIG_UPDATE)
            return failures

        self._turns.check_caller(self.ctx)
        return await self._turns.run(change, gone=())

    async def apply(self, rows: Sequence[Row], *, check: Callable[[], None] | None = None) -> None:
        """Make the tree equal `rows`: unchanged rows go on, the others change, start or end.

        Waits until everything has come to rest; then `check` may refuse the outcome by raising.
        On any failure the previous rows are restored and LoaderError is raised (`IMPORT_FAILED`,
        `UNKNOWN_PLUGIN`, `APPLY_FAILED`, `DUPLICATE_ID`, `ROLLBACK_FAILED`) or what `check`
        raised.
        """
        check_unique(rows)
        self._turns.check_caller(self.ctx)
        await self._change(self._root, lambda change: change.plan(self._root, rows), check)

    async def replace(self, plugins: Mapping[Entry, object]) -> None:
        """Run other plugin objects for these entries, with the same rows and configurations.

        The old ones are cleaned up before the new start; if anything fails the old ones are
        started again and LoaderError is raised. Entries that are not mounted are left alone.
        """
        loaded = {entry: (plugin, entry.module) for entry, plugin in plugins.items()}
        self._turns.check_caller(self.ctx)
        await self._change(self._root, lambda change: change.replace(loaded), None)

    async def settled(self) -> None:
        """Wait until no row is starting or ending; pending rows are fine.

        Raises LoaderError (`APPLY_FAILED`) if rows have failed. Returns early when the caller is
        unloaded meanwhile, since that unload may be what is waited for.
        """
        caller = self.ctx.fiber
        self._turns.check_caller(self.ctx)
        leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def notice(fiber: Fiber, _old: FiberState) -> None:
            if fiber is caller and _leaves(caller) and not leaving.done():
                leaving.set_result(None)

        if _leaves(caller):
            return
        stop_listening = self.ctx.on(Internal.STATUS, notice, unscoped=True)
        try:
            while (busy := self._turns.pending | in_flight(self.entries())) and not leaving.done():
                await asyncio.wait({*busy, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop_listening()
        failures = [f for entry in self.entries() if (f := entry_failure(entry)) is not None]
        if failures and not leaving.done():
            raise combine(failures)

    # -- single rows ----------------------------------------------------------------------------

    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the tree, a group or include before what it holds."""
        return tuple(self._root.walk())

    @property
    def starting(self) -> tuple[str, ...]:
        """Ids of rows whose import or body runs now, the latest to begin first.

        May be read from another thread, to name what holds up the event loop.
        """
        return self._mounter.starting

    def resolve(self, entry_id: str) -> Entry:
        """The entry of that id. Raises LoaderError (`UNKNOWN_ENTRY`) naming near ones."""
        return self._editor.resolve(entry_id)

    def locate(self, fiber: Fiber | None = None) -> Entry | None:
        """The entry that `fiber` (by default the caller's) or one above it was mounted for."""
        entry = (fiber or self.ctx.fiber).ctx.meta(ENTRY_META)
        if not isinstance(entry, Entry) or entry.within.entries.get(entry.row.id) is not entry:
            return None
        return entry

    def own_entry(self) -> Entry:
        """The entry that the calling plugin was mounted for.

        Raises LoaderError (`INVALID_ROW`) for one that no row mounted.
        """
        entry = self.ctx.meta(ENTRY_META)
        if not isinstance(entry, Entry):
            raise LoaderError(
                "no row mounted the plugin that asks for its entry", code="INVALID_ROW"
            )
        return entry

    async def create(
        self,
        fields: Mapping[str, object],
        *,
        parent: str | None = None,
        position: int | None = None,
    ) -> Entry:
        """Add a row, given as in a file, to the entry `parent` or the top, by default last.

        Transactional like `apply`; a row that runs is then stored. Raises LoaderError, and what
        the store raises, which leaves the row running.
        """
        return await self._edit(
            lambda: self._editor.create(fields, parent=parent, position=position)
        )

    async def update(
        self,
        entry_id: str,
        fields: Mapping[str, object],
        *,
        parent: str | msgspec.UnsetType | None = msgspec.UNSET,
        position: int | None = None,
    ) -> Entry:
        """Replace fields of a row, each whole; None takes a field away. May also move the row.

        `parent` is another group of the same file, None its top. Transactional and stored like
        `create`.
        """
        return await self._edit(
            lambda: self._editor.update(entry_id, fields, parent=parent, position=position)
        )

    async def remove(self, entry_id: str) -> None:
        """End a row and take it out of the tree and of what stores it."""
        await self._edit(lambda: self._editor.remove(entry_id))

    def store_with(self, store: RowStore) -> Disposer:
        """Store changes of the root's rows with `store`; undone with the caller.

        Rows of an include are stored in its own file.
        """
        editor = self._editor

        def undo() -> None:
            if editor.root_store is store:
                editor.root_store = None

        editor.root_store = store
        return self.ctx.effect(lambda: undo, "loader.store_with()")

    # -- carriers of rows -------------------------------------------------------------------------

    async def carry(
        self,
        rows: Sequence[Row] | None = None,
        *,
        nested: bool = False,
        source: RowSource | None = None,
    ) -> Disposer:
        """For groups and includes: mount rows below the calling plugin.

        None means the children of the caller's own row; `nested` rows have their own id space and
        may come from a file. Raises LoaderError if one of them fails; the kernel then unwinds the
        caller. During a tolerant start rows fail alone.
        """
        entry = self.own_entry()
        if rows is None:
            rows = entry.row.children or ()
        elif self._starting is None:
            check_unique(rows)
        members = entry.members = Members(
            self.ctx,
            f"{entry.id}:" if nested else entry.id.removesuffix(entry.row.id),
            owner=entry,
            nested=nested,
            source=source,
        )

        def forget() -> None:
            if entry.members is members:
                entry.members = None

        if self._starting is not None:
            await self._starting.carry(members, rows)
            return forget
        change = Transaction(self._mounter)
        try:
            change.plan(members, rows)
            await change.execute()
        except BaseException:
            forget()
            raise
        if self._turns.idle and any(one.held for one in members.walk()):
            self.own.spawn(self._release_at_rest, name="loader release")
        return forget

    async def rearrange(self, rows: Sequence[Row]) -> None:
        """For includes: make the rows below the calling plugin equal `rows`, or change nothing."""
        check_unique(rows)
        members = self.own_entry().members
        if members is not None:
            await self._change(members, lambda change: change.plan(members, rows), None)

    async def exclusively(self, change: Callable[[], Awaitable[T]], *, gone: T) -> T:
        """Run `change` while no other change of the tree runs; `gone` if the tree has ended."""
        self._turns.check_caller(self.ctx)
        return await self._turns.run(change, gone=gone)

    def watched_files(self) -> Mapping[Path, Callable[[], Awaitable[None]]]:
        """The files that mounted rows were read from, each with what reads it again."""
        found: dict[Path, list[RowSource]] = {}
        for entry in self._root.walk():
            source = None if entry.members is None else entry.members.source
            if source is not None:
                found.setdefault(source.file, []).append(source)
        return {file: _all(sources) for file, sources in found.items()}

    # -- changes ----------------------------------------------------------------------------------

    async def _edit(self, edit: Callable[[], Awaitable[T]]) -> T:
        self._turns.check_caller(self.ctx)

        async def change() -> tuple[T]:
            return (await edit(),)

        result = await self._turns.run(change, gone=None)
        if result is None:
            raise LoaderError("the tree has ended", code="TREE_ENDED")
        return result[0]

    async def _commit(
        self, members: Members, rows: Sequence[Row], check: Callable[[], None]
    ) -> None:
        await self._change(members, lambda change: change.plan(members, rows), check)

    async def _change(
        self,
        members: Members,
        plan: Callable[[Transaction], None],
        check: Callable[[], None] | None,
    ) -> None:
        await self._turns.run(lambda: self._transact(members, plan, check), gone=None)

    async def _transact(
        self,
        members: Members,
        plan: Callable[[Transaction], None],
        check: Callable[[], None] | None,
    ) -> None:
        transaction = Transaction(self._mounter)
        # A change within a change (an include that takes other patches) leaves what goes on around
        # it to the outer one.
        walk = members.walk if self._open_changes else self._root.walk
        failed = {entry.fiber for entry in walk() if entry_failure(entry)}

        async def rest() -> list[LoaderError]:
            await settle(walk)
            if self._mounter.release(walk()):
                await settle(walk)
            # What had failed before is not this change's fault.
            news = [e for e in walk() if e.fiber not in failed]
            return [failure for e in news if (failure := entry_failure(e)) is not None]

        self._open_changes += 1
        try:
            plan(transaction)
            await transaction.execute(settle=rest)
            if check is not None and self._turns.alive:
                check()
        except Exception as error:
            if not self._turns.alive:
                return
            await self._roll_back(transaction, rest, error)
            raise
        finally:
            self._open_changes -= 1
        if self._turns.alive and not self._open_changes:
            self.own.emit(CONFIG_UPDATE)

    async def _roll_back(self, transaction: Transaction, rest: Settle, error: Exception) -> None:
        failures = await transaction.undo(settle=rest)
        if failures:
            lines = "".join(f"\n  - {failure}" for failure in failures)
            raise LoaderError(
                f"loader entry rollback failed:{lines}\nafter: {error}", code="ROLLBACK_FAILED"
            ) from error

    async def _release_at_rest(self) -> None:
        await settle(self._root.walk)
        self._mounter.release(self._root.walk())

    def _resolve(self, name: str) -> tuple[object, str | None]:
        return locate_plugin(name, entry_points=self.entry_points, builtins=self._builtins)


def _all(sources: Sequence[RowSource]) -> Callable[[], Awaitable[None]]:
    async def refresh() -> None:
        for source in sources:
            await source.refresh()

    return refresh


def _leaves(fiber: Fiber) -> bool:
    return fiber.uid is None or fiber.state is FiberState.UNLOADING
