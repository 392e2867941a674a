"""Changing one row in a list of rows, groups included. Plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ._rows import Row


def without(rows: Sequence[Row], row_id: str) -> tuple[Row, ...]:
    """The rows less the one of that id."""
    result: list[Row] = []
    for row in rows:
        if row.id == row_id:
            continue
        result.append(
            msgspec.structs.replace(row, children=without(row.children, row_id))
            if row.children and row_id in _ids(row.children)
            else row
        )
    return tuple(result)


def substituted(rows: Sequence[Row], changed: Row) -> tuple[Row, ...]:
    """The rows with the one of the same id replaced."""
    result: list[Row] = []
    for row in rows:
        if row.id == changed.id:
            result.append(changed)
        elif row.children and changed.id in _ids(row.children):
            children = substituted(row.children, changed)
            result.append(msgspec.structs.replace(row, children=children))
        else:
            result.append(row)
    return tuple(result)


def placed(
    rows: Sequence[Row], row: Row, *, parent: str | None, position: int | None
) -> tuple[Row, ...]:
    """The rows with `row` among the children of `parent` (None: at the top), by default last."""
    if parent is None:
        index = len(rows) if position is None else position
        return (*rows[:index], row, *rows[index:])
    result: list[Row] = []
    for one in rows:
        if one.id == parent:
            children = placed(one.children or (), row, parent=None, position=position)
            result.append(msgspec.structs.replace(one, children=children))
        elif one.children and parent in _ids(one.children):
            children = placed(one.children, row, parent=parent, position=position)
            result.append(msgspec.structs.replace(one, children=children))
        else:
            result.append(one)
    return tuple(result)


def _ids(rows: Sequence[Row]) -> set[str]:
    ids = {row.id for row in rows}
    for row in rows:
        if row.children:
            ids |= _ids(row.children)
    return ids
