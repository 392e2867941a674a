"""The entry tree: rows, and the fibers that run them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from dsh_cordis import FiberState

from ._rows import Row

if TYPE_CHECKING:
    from dsh_cordis import Context, Fiber, ServiceKey

    from ._store import RowStore

ENTRY_META: Final = "loader_entry"
"""Context attribute that holds the entry a plugin was mounted for."""


class Entry:
    """One row of the tree and the fiber that runs it. Read it; the loader changes it."""

    __slots__ = ("fiber", "gates", "held", "id", "members", "module", "plugin", "row", "within")
    id: str
    """The row's id, after the ids of the includes around it: `outer:inner`."""
    row: Row
    fiber: Fiber | None
    """None while the row is disabled, has failed at the start or its group is not running."""
    members: Members | None
    """The rows below it while it is a running group or include."""
    within: Members
    """The list of rows that it stands in."""
    plugin: object
    module: str | None
    """Name of the module that the plugin was imported from; None before that and for builtins."""
    gates: dict[str, ServiceKey[Any]]
    """What the row and those around it make every fiber below wait for, by name."""
    held: bool
    """Whether it waits until all other rows are at rest."""

    def __init__(self, entry_id: str, row: Row, within: Members) -> None:
        self.id = entry_id
        self.row = row
        self.within = within
        self.fiber = None
        self.members = None
        self.plugin = None
        self.module = None
        self.gates = {}
        self.held = False

    def __repr__(self) -> str:
        state = self.fiber.state.name if self.fiber is not None else "not mounted"
        return f"<Entry {self.id!r} {self.row.name} {state}>"

    @property
    def missing_services(self) -> tuple[str, ...]:
        """The injected services that nobody provides now; empty for a row that is not mounted."""
        fiber = self.fiber
        if fiber is None:
            return ()
        return tuple(name for name, key in fiber.inject.items() if fiber.ctx.get(key) is None)

    @property
    def parent(self) -> Entry | None:
        """The group or include that holds it; None at the top."""
        return self.within.owner

    def record(self, row: Row) -> None:
        """Remember what it became, also in the rows of the groups around it."""
        self.row = row
        entry = self
        while (owner := entry.within.owner) is not None and owner.row.children is not None:
            children = tuple(entry.row if c.id == entry.row.id else c for c in owner.row.children)
            owner.row = msgspec.structs.replace(owner.row, children=children)
            entry = owner


class RowSource(Protocol):
    """The file that the rows of an include come from."""

    file: Path

    @property
    def refresh(self) -> Callable[[], Awaitable[None]]:
        """Read the file again; raises if it cannot be used and leaves the tree as it was."""
        ...

    @property
    def store(self) -> RowStore:
        """Writes changes of its rows."""
        ...


class Members:
    """The entries of one list of rows, mounted in one context."""

    __slots__ = ("ctx", "entries", "nested", "owner", "prefix", "source")
    ctx: Context
    prefix: str
    entries: dict[str, Entry]
    owner: Entry | None
    """The group or include that holds them; None for the root list."""
    nested: bool
    """Whether the ids are a space of their own: at the root and in includes."""
    source: RowSource | None
    """The file of an include."""

    def __init__(
        self,
        ctx: Context,
        prefix: str,
        *,
        owner: Entry | None = None,
        nested: bool = True,
        source: RowSource | None = None,
    ) -> None:
        self.ctx = ctx
        self.prefix = prefix
        self.entries = {}
        self.owner = owner
        self.nested = nested
        self.source = source

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

    @property
    def tree(self) -> Members:
        """The root list or include that the rows belong to, through the groups between."""
        members = self
        while not members.nested and members.owner is not None:
            members = members.owner.within
        return members

    def rows(self) -> tuple[Row, ...]:
        """The rows of this list as they are now."""
        return tuple(entry.row for entry in self.entries.values())

    def walk(self) -> list[Entry]:
        """Every entry, parents before what they hold."""
        result: list[Entry] = []
        # A copy, taken in one step: a watching thread may walk as well.
        for entry in list(self.entries.values()):
            result.append(entry)
            members = entry.members
            if members is not None:
                result.extend(members.walk())
        return result


def in_flight(entries: Sequence[Entry]) -> set[Any]:
    """The loads and unloads that have not come to an end."""
    return {e.fiber.inertia for e in entries if e.fiber is not None and e.fiber.inertia is not None}


async def settle(entries: Callable[[], list[Entry]]) -> None:
    """Wait until no entry's fiber is loading or unloading."""
    while True:
        busy = [e.fiber for e in entries() if e.fiber is not None and e.fiber.inertia is not None]
        if not busy:
            return
        for fiber in busy:
            await fiber.quiet()
