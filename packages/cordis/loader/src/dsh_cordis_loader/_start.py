"""Starting as much of a list of rows as can run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from dsh_cordis import FiberState

from ._entry import Entry, Members, in_flight
from ._failures import RowFailure, duplicate, entry_failure, failed
from ._mounting import Mounter
from ._transaction import remounts

if TYPE_CHECKING:
    from ._rows import Row

_DISPOSAL_S: Final = 1.0
"""How long the end of a row is waited for; one whose body never returns never ends."""


class TolerantStart:
    """One reconciliation that goes on past what fails."""

    def __init__(self, mounter: Mounter, timeout_ms: int | None) -> None:
        self._mounter = mounter
        self._timeout_ms = timeout_ms
        self._failures: dict[int, RowFailure] = {}
        self._repeated: list[RowFailure] = []

    async def run(self, root: Members, rows: Sequence[Row]) -> tuple[RowFailure, ...]:
        """Make `root` equal `rows` as far as possible; what does not run, in the tree's order."""
        rows = _unique(rows, {}, self._repeated)
        await self.reconcile(root, rows)
        await self._rest(root)
        if self._mounter.release(root.walk()):
            await self._rest(root)
        await self._unmount_failed(root)
        return (*self._repeated, *self._outcome(root))

    async def carry(self, members: Members, rows: Sequence[Row]) -> None:
        """Mount the rows of a group or include that starts; they are waited for with the rest."""
        if members.nested:
            rows = _unique(rows, {}, self._repeated, prefix=members.prefix)
        await self.reconcile(members, rows)

    async def reconcile(self, members: Members, rows: Sequence[Row]) -> None:
        """Mount, change and end the rows of one list; waits for ends only."""
        old, members.entries = members.entries, {}
        mounts: list[tuple[Entry, Row]] = []
        ends: list[asyncio.Future[None] | None] = []
        nested: list[Callable[[], Awaitable[None]]] = []
        for row in rows:
            entry = old.pop(row.id, None) or self._mounter.entry(members, row)
            members.entries[row.id] = entry
            wanted = self._wanted(entry, row)
            keep = (
                wanted
                and entry.fiber is not None
                and not remounts(entry.row, row)
                and entry.row.config == row.config
            )
            if keep and entry.members is not None and row.children is not None:
                nested.append(_later(self.reconcile, entry.members, row.children))
            elif not keep:
                ends.append(self._mounter.take_down(entry, again=wanted))
                if wanted:
                    mounts.append((entry, row))
            entry.row = row
        ends.extend(self._mounter.take_down(entry, again=False) for entry in old.values())
        await _ended(ends)
        for entry, row in mounts:
            self._mount(entry, row)
        for descend in nested:
            await descend()

    def _wanted(self, entry: Entry, row: Row) -> bool:
        try:
            return not self._mounter.scope.disabled(row)
        except Exception as error:  # noqa: BLE001 - containment: the row fails, the others start
            self._fail(entry, row, "apply", failed("apply", entry.id, row, error))
            return False

    def _mount(self, entry: Entry, row: Row) -> None:
        try:
            entry.plugin, entry.module = self._mounter.load(entry, row)
        except Exception as error:  # noqa: BLE001 - containment: the row fails, the others start
            self._fail(entry, row, "import", error)
            return
        failure = self._mounter.mount(entry)
        if failure is not None:
            self._fail(entry, row, "apply", failure)

    def _fail(
        self, entry: Entry, row: Row, kind: Literal["import", "apply"], error: BaseException
    ) -> None:
        self._failures[id(entry)] = RowFailure(
            entry_id=entry.id,
            row=row,
            kind=kind,
            error=error.__cause__ or error,
            message=str(error),
        )

    # -- waiting ----------------------------------------------------------------------------

    async def _rest(self, root: Members) -> None:
        """Wait until nothing is loading; what takes longer than the timeout is given up."""
        loop = asyncio.get_running_loop()
        deadline = None if self._timeout_ms is None else loop.time() + self._timeout_ms / 1000
        while busy := in_flight(root.walk()):
            left = None if deadline is None else deadline - loop.time()
            if left is not None and left <= 0:
                await self._give_up(root)
                continue
            await asyncio.wait(busy, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    async def _give_up(self, root: Members) -> None:
        late = [e for e in root.walk() if e.fiber is not None and e.fiber.inertia is not None]
        for entry in late:
            self._failures[id(entry)] = RowFailure(
                entry_id=entry.id,
                row=entry.row,
                kind="timeout",
                message=f"loader entry {entry.id} ({entry.row.name}) was not active after"
                f" {self._timeout_ms} ms",
            )
        await _ended([self._mounter.take_down(entry, again=False) for entry in late])

    async def _unmount_failed(self, root: Members) -> None:
        ends: list[asyncio.Future[None] | None] = []
        for entry in root.walk():
            failure = entry_failure(entry)
            if failure is not None:
                self._fail(entry, entry.row, "apply", failure)
                ends.append(self._mounter.take_down(entry, again=False))
        await _ended(ends)

    def _outcome(self, root: Members) -> list[RowFailure]:
        result: list[RowFailure] = []
        for entry in root.walk():
            failure = self._failures.get(id(entry))
            if failure is None and entry.fiber is not None:
                failure = _waiting(entry)
            if failure is not None:
                result.append(failure)
        return result


def _waiting(entry: Entry) -> RowFailure | None:
    assert entry.fiber is not None
    if entry.fiber.state is not FiberState.PENDING:
        return None
    missing = entry.missing_services
    noun = "services" if len(missing) > 1 else "service"
    return RowFailure(
        entry_id=entry.id,
        row=entry.row,
        kind="wait",
        missing=missing,
        message=f"loader entry {entry.id} ({entry.row.name}) is pending (waiting for {noun}:"
        f" {', '.join(missing) or 'unknown'})",
    )


def _unique(
    rows: Sequence[Row], seen: dict[str, Row], repeated: list[RowFailure], *, prefix: str = ""
) -> tuple[Row, ...]:
    """The rows without those whose id an earlier one has."""
    result: list[Row] = []
    for row in rows:
        first = seen.setdefault(row.id, row)
        if first is not row:
            error = duplicate(first, row)
            repeated.append(
                RowFailure(
                    entry_id=prefix + row.id, row=row, kind="apply", error=error, message=str(error)
                )
            )
            continue
        if row.children:
            children = _unique(row.children, seen, repeated, prefix=prefix)
            if len(children) != len(row.children) or any(
                one is not other for one, other in zip(children, row.children, strict=True)
            ):
                row = msgspec.structs.replace(row, children=children)
        result.append(row)
    return tuple(result)


def _later(
    reconcile: Callable[[Members, Sequence[Row]], Awaitable[None]],
    members: Members,
    rows: Sequence[Row],
) -> Callable[[], Awaitable[None]]:
    return lambda: reconcile(members, rows)


async def _ended(ends: Sequence[asyncio.Future[None] | None]) -> None:
    waits = [end for end in ends if end is not None]
    if waits:
        await asyncio.wait(waits, timeout=_DISPOSAL_S)
