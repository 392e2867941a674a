"""How a new list of rows replaces the old one, or nothing happens.

All plugins are imported before anything is touched, outcomes are awaited, and a failure restores
what was there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from dsh_cordis import FiberState

from ._entry import Entry, Members
from ._errors import LoaderError
from ._failures import combine, duplicate, entry_failure, failed
from ._mounting import Mounter
from ._rows import Row, walk_rows

Settle: TypeAlias = Callable[[], Awaitable[list[LoaderError]]]
"""Waits until the tree is at rest and returns what failed in it meanwhile."""


class _Kind(Enum):
    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"
    UPDATE = "update"
    KEEP = "keep"


_STARTS = (_Kind.ADD, _Kind.REPLACE)
_ENDS = (_Kind.REMOVE, _Kind.REPLACE)


class _Change:
    """What happens to one entry, with what is needed to take it back."""

    __slots__ = (
        "entry",
        "kind",
        "module",
        "old_module",
        "old_plugin",
        "old_row",
        "plugin",
        "row",
        "touched",
        "was_failed",
    )

    def __init__(
        self,
        kind: _Kind,
        entry: Entry,
        row: Row,
        *,
        loaded: tuple[object, str | None] = (None, None),
    ) -> None:
        self.kind = kind
        self.entry = entry
        self.row = row
        self.plugin, self.module = loaded
        self.old_row = entry.row
        self.old_plugin, self.old_module = entry.plugin, entry.module
        self.was_failed = entry.fiber is not None and entry.fiber.state is FiberState.FAILED
        self.touched = False


class Transaction:
    """One reconciliation of one list of rows with what runs."""

    def __init__(self, mounter: Mounter) -> None:
        self._mounter = mounter
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
                entry = self._mounter.entry(members, row)
            entries[row.id] = entry
            self._plan_entry(entry, row)
        for row_id, entry in members.entries.items():
            if row_id not in entries:
                self._changes.append(_Change(_Kind.REMOVE, entry, entry.row))
        self._old.append((members, members.entries))
        members.entries = entries

    def replace(self, plugins: Mapping[Entry, tuple[object, str | None]]) -> None:
        """Note new plugin objects for rows that run."""
        self._changes.extend(
            _Change(_Kind.REPLACE, entry, entry.row, loaded=loaded)
            for entry, loaded in plugins.items()
            if entry.fiber is not None
        )

    def _plan_entry(self, entry: Entry, row: Row) -> None:
        wanted = not self._mounter.scope.disabled(row)
        kind = _kind(entry, row, wanted=wanted)
        if kind in _STARTS:
            loaded = self._mounter.load(entry, row)
            self._changes.append(_Change(kind, entry, row, loaded=loaded))
            return
        self._changes.append(_Change(kind, entry, row))
        if kind is _Kind.KEEP and entry.members is not None and row.children is not None:
            self.plan(entry.members, row.children)

    # -- executing ------------------------------------------------------------------------------

    async def execute(self, *, settle: Settle | None = None) -> None:
        """Do what was planned. Raises LoaderError if a row fails; `undo` then takes it back.

        `settle` waits for the whole tree and tells what failed in it: a row may start late, when
        another one has provided what it waits for.
        """
        self._started = True
        leaving = [change for change in self._changes if change.kind in _ENDS]
        for change in leaving:
            change.touched = change.entry.fiber is not None
        ends = [
            self._mounter.take_down(change.entry, again=change.kind is _Kind.REPLACE)
            for change in leaving
        ]
        for change in self._changes:
            # Before anything moves: a group that starts meanwhile reads its rows here.
            change.entry.row = change.row
        await _ended(ends)
        failures: list[LoaderError] = []
        for change in self._changes:
            if change.kind in _STARTS:
                change.entry.plugin, change.entry.module = change.plugin, change.module
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
            if change.entry.row is change.row:  # else it has disposed itself meanwhile
                change.entry.row = change.old_row
            change.entry.plugin, change.entry.module = change.old_plugin, change.old_module
        await _ended(
            [
                self._mounter.take_down(change.entry, again=change.kind is _Kind.REPLACE)
                for change in reversed(self._changes)
                if change.kind in _STARTS
            ]
        )
        for change in self._changes:
            if change.kind in _ENDS and change.touched:
                self._mount(change, failures)
            elif change.kind is _Kind.UPDATE and change.touched:
                await self._update(change, failures)
        await self._outcomes(failures)
        late = await settle()
        return failures or late

    def _mount(self, change: _Change, failures: list[LoaderError]) -> None:
        failure = self._mounter.mount(change.entry, action=self._action)
        if failure is not None:
            failures.append(failure)

    async def _update(self, change: _Change, failures: list[LoaderError]) -> None:
        entry = change.entry
        fiber = entry.fiber
        if fiber is None or not entry.within.running:
            return
        change.touched = True
        try:
            await fiber.update(entry.row.config, no_save=True)
        except Exception as error:  # noqa: BLE001 - containment: the transaction reports and undoes it
            if fiber.state is not FiberState.FAILED:
                # Refused before anything changed: the old instance runs on.
                change.touched = False
                failures.append(failed(self._action, entry.id, entry.row, error))

    async def _outcomes(self, failures: list[LoaderError]) -> None:
        for change in self._changes:
            fiber = change.entry.fiber
            if fiber is None or (change.kind is _Kind.KEEP and change.was_failed):
                continue
            await fiber.quiet()
            failure = entry_failure(change.entry, self._action)
            if failure is not None:
                failures.append(failure)


def check_unique(rows: Sequence[Row]) -> None:
    """Raises LoaderError (`DUPLICATE_ID`) if two rows of a tree share an id."""
    seen: dict[str, Row] = {}
    for row in walk_rows(rows):
        other = seen.setdefault(row.id, row)
        if other is not row:
            raise duplicate(other, row)


def remounts(old: Row, new: Row) -> bool:
    """Whether the difference is more than a new configuration."""
    return (old.name, old.inject, old.isolate, old.intercept) != (
        new.name,
        new.inject,
        new.isolate,
        new.intercept,
    )


def _kind(entry: Entry, row: Row, *, wanted: bool) -> _Kind:
    if entry.fiber is None:
        return _Kind.ADD if wanted else _Kind.KEEP
    if not wanted:
        return _Kind.REMOVE
    if remounts(entry.row, row):
        return _Kind.REPLACE
    return _Kind.UPDATE if row.config != entry.row.config else _Kind.KEEP


async def _ended(ends: Sequence[asyncio.Future[None] | None]) -> None:
    # Requested for all before any is awaited, so that they unload together.
    waits = [end for end in ends if end is not None]
    if waits:
        await asyncio.wait(waits)
