"""The loader service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Final

from dsh_cordis import FiberState, Internal, Service, ServiceKey

from ._entry_points import EntryPoints, scan_entry_points
from ._errors import LoaderError
from ._resolve import resolve_plugin
from ._rows import Row
from ._scope import ExpressionScope, LoaderOptions
from ._tree import (
    ENTRY_META,
    Entry,
    Members,
    Settle,
    Transaction,
    check_unique,
    combine,
    entry_failure,
    settle,
)

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer, Fiber

LOADER: Final = ServiceKey["Loader"]("loader")


class Loader(Service):
    """Keeps a tree of rows running: `await loader.apply(rows)` mounts, changes and removes.

    Rows of a list start concurrently; a row whose services are missing stays pending and blocks
    nobody.
    """

    provides: ClassVar = LOADER

    def __init__(self, ctx: Context, config: LoaderOptions | None = None) -> None:
        super().__init__(ctx, config)
        options = config or LoaderOptions()
        self._points = options.entry_points
        self._scope = ExpressionScope(options)
        self._builtins: dict[str, object] = {}
        self._root = Members(ctx, "")
        self._applying = asyncio.Lock()
        self._changes: set[asyncio.Future[None]] = set()

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

    async def apply(self, rows: Sequence[Row], *, check: Callable[[], None] | None = None) -> None:
        """Make the tree equal `rows`: unchanged rows go on, the others change, start or end.

        Waits until everything has come to rest; then `check` may refuse the outcome by raising.
        On any failure the previous rows are restored and LoaderError is raised (`IMPORT_FAILED`,
        `UNKNOWN_PLUGIN`, `APPLY_FAILED`, `DUPLICATE_ID`, `ROLLBACK_FAILED`) or what `check`
        raised. Calls are serialised. A plugin's body must not await it: it waits for that body.
        """
        check_unique(rows)
        async with self._exclusive():
            transaction = self._transaction()
            members = self._root
            failed = {entry.fiber for entry in members.walk() if entry_failure(entry)}

            async def rest() -> list[LoaderError]:
                await self._quiet()
                # What had failed before is not this change's fault.
                news = [e for e in members.walk() if e.fiber not in failed]
                return [failure for e in news if (failure := entry_failure(e)) is not None]

            try:
                transaction.plan(members, rows)
                await transaction.execute(settle=rest)
                if check is not None and self._alive:
                    check()
            except Exception as error:
                if not self._alive:
                    return
                await self._roll_back(transaction, rest, error)
                raise

    async def settled(self) -> None:
        """Wait until no row is starting or ending; pending rows are fine.

        Raises LoaderError (`APPLY_FAILED`) if rows have failed. Returns early when the caller is
        unloaded meanwhile, since that unload may be what is waited for. A plugin's body must not
        await it: spawn a task for that.
        """
        caller = self.ctx.fiber
        leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def notice(fiber: Fiber, _old: FiberState) -> None:
            if fiber is caller and _leaves(caller) and not leaving.done():
                leaving.set_result(None)

        if _leaves(caller):
            return
        stop_listening = self.ctx.on(Internal.STATUS, notice, unscoped=True)
        try:
            while (busy := self._in_flight()) and not leaving.done():
                await asyncio.wait({*busy, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop_listening()
        failures = [f for entry in self.entries() if (f := entry_failure(entry)) is not None]
        if failures and not leaving.done():
            raise combine(failures)

    def entries(self) -> tuple[Entry, ...]:
        """Every entry of the tree, a group or include before what it holds."""
        return tuple(self._root.walk())

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

    async def carry(self, rows: Sequence[Row] | None = None, *, nested: bool = False) -> Disposer:
        """For groups and includes: mount rows below the calling plugin.

        None means the children of the caller's own row; `nested` rows have their own id space.
        Raises LoaderError if one of them fails; the kernel then unwinds the caller.
        """
        entry = self.own_entry()
        if rows is None:
            rows = entry.row.children or ()
        else:
            check_unique(rows)
        members = entry.members = Members(
            self.ctx, f"{entry.id}:" if nested else entry.id.removesuffix(entry.row.id), entry
        )

        def forget() -> None:
            if entry.members is members:
                entry.members = None

        transaction = self._transaction()
        try:
            transaction.plan(members, rows)
            await transaction.execute()
        except BaseException:
            forget()
            raise
        return forget

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        """One change at a time, known to `settled` from the moment that it is asked for."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.add(done)
        try:
            async with self._applying:
                yield
        finally:
            self._changes.discard(done)
            done.set_result(None)

    def _in_flight(self) -> set[asyncio.Future[None]]:
        """What has to end before the tree is at rest."""
        fibers = (entry.fiber for entry in self._root.walk())
        return self._changes | {one.inertia for one in fibers if one and one.inertia}

    @property
    def _alive(self) -> bool:
        return self.own.fiber.uid is not None

    def _transaction(self) -> Transaction:
        return Transaction(
            self._scope,
            lambda name: resolve_plugin(
                name, entry_points=self.entry_points, builtins=self._builtins
            ),
        )

    async def _quiet(self) -> None:
        await settle(self._root.walk)

    async def _roll_back(self, transaction: Transaction, rest: Settle, error: Exception) -> None:
        failures = await transaction.undo(settle=rest)
        if failures:
            lines = "".join(f"\n  - {failure}" for failure in failures)
            raise LoaderError(
                f"loader entry rollback failed:{lines}\nafter: {error}", code="ROLLBACK_FAILED"
            ) from error


def _leaves(fiber: Fiber) -> bool:
    return fiber.uid is None or fiber.state is FiberState.UNLOADING
