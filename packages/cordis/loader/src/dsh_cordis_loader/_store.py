"""Where changes of rows are written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from ._rows import Row


class RowChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one row, made and running already."""

    kind: Literal["create", "update", "remove"]
    row_id: str
    """The row's id in its own tree, without the ids of includes around it."""
    row: Row | None
    """The row as it is now; None once removed."""
    fields: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    """The fields that were set, spelled as in a file; None takes a field away."""
    parent: str | None = None
    """The group that holds the row now; None is the top level."""
    position: int | None = None
    """Where among its siblings it was asked to be; None is the end, or where it was."""
    moved: bool = False
    """Whether an update put the row into another group."""


class RowStore(Protocol):
    """Writes changes of the rows of one tree to where they came from."""

    async def save(self, change: RowChange) -> None:
        """Write one change. What it raises is logged and told to whoever asked for the change."""
        ...
