"""Changes of rows, written into the files that the rows come from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from dsh_cordis_loader import LoaderError, parse_rows, row_fields, write_yaml

from ._errors import IncludeError
from ._patches import parse_patches, parsed_patches

if TYPE_CHECKING:
    from dsh_cordis_loader import Row, RowChange

    from ._edit import Convert, Document

Check = Callable[[bytes], None]
"""Refuses the new content of a file by raising."""

LAST_GOOD: Final = ".last-good"
"""Suffix of the copy of what a file held before its last change."""


class PatchFileStore:
    """Turns changes of rows into entries of a patch file.

    A new row becomes an `insert`; changed fields go into the entry of that id, else into a new
    one; a removed row is taken out if this file inserted it and switched off otherwise. Patches
    know no positions, so neither does what is stored.
    """

    def __init__(self, file: Path, *, check: Check | None = None) -> None:
        self.file = file
        self._check = check

    async def save(self, change: RowChange) -> None:
        """Write one change. Raises IncludeError, OSError or what `check` raises: file untouched."""
        await asyncio.to_thread(self._save, change)

    def _save(self, change: RowChange) -> None:
        document = _opened(self.file)
        if change.kind == "create" and change.row is not None:
            entry: dict[str, object] = {"insert": [_stored(change.fields, change.row)]}
            if change.parent is not None:
                entry = {"id": change.parent, **entry}
            document.insert(len(document.items), entry)
        elif change.kind == "update":
            _update_patch(document, change, self.file)
        elif not _take_out(document, change.row_id, self.file):
            _patch(document, change.row_id, {"disabled": True})
        _commit(self.file, document, _checked_patches(self.file), self._check)


class RowFileStore:
    """Writes changes of rows into the list of rows that an include reads."""

    def __init__(self, file: Path, *, written: Callable[[bytes], None]) -> None:
        self.file = file
        self._written = written

    async def save(self, change: RowChange) -> None:
        """Write one change. Raises IncludeError or OSError: file untouched."""
        await asyncio.to_thread(self._save, change)

    def _save(self, change: RowChange) -> None:
        document = _opened(self.file)
        if change.kind != "create":
            path = _row_path(document.items, change.row_id, self.file)
            if change.kind == "remove" or change.moved or change.position is not None:
                moved = _delete_row(document, path, self.file)
            else:
                moved = None
                _edit_row(document, path, change.fields)
            if change.kind == "update" and moved is not None:
                merged = {**moved, **change.fields}
                fields = {key: value for key, value in merged.items() if value is not None}
                _add_row(document, fields, change, self.file)
        elif change.row is not None:
            _add_row(document, _stored(change.fields, change.row), change, self.file)
        self._written(_commit(self.file, document, _checked_rows(self.file), None))


def remove_row_from_file(file: str | Path, row_id: str) -> bool:
    """Take the rows and patches of that id out of a patch file; whether there were any.

    Comments and everything else stay. Raises IncludeError for a file that cannot be used and
    OSError for one that cannot be written.
    """
    file = Path(file)
    if not file.exists():
        return False
    document = _opened(file)
    before = document.text
    _take_out(document, row_id, file)
    for index in reversed(range(len(document.items))):
        entry = cast("Mapping[str, object]", document.items[index])
        if entry.get("id") == row_id and "insert" not in entry:
            document.delete(index)
    if document.text == before:
        return False
    _commit(file, document, _checked_patches(file), None)
    return True


def write_initial_rows(file: Path, rows: object) -> bytes:
    """Make a new file of rows; returns what it holds. Raises IncludeError or OSError."""
    from ._edit import write_json

    text = write_json(rows, where=str(file)) if file.suffix == ".json" else write_yaml(rows)
    _checked_rows(file)(text.encode())
    return _write(file, text.encode())


# -- patches --------------------------------------------------------------------------------------


def _update_patch(document: Document, change: RowChange, file: Path) -> None:
    if change.moved:
        raise IncludeError(
            f"a patch file cannot say that row {change.row_id!r} moved to another group",
            code="CONFIG_INVALID",
        )
    if _has_patch(document, change.row_id) is None:
        path = _inserted(document, change.row_id, file)
        if path is not None:
            _edit_row(document, path, change.fields)
            return
    _patch(document, change.row_id, change.fields)


def _patch(document: Document, row_id: str, fields: Mapping[str, object]) -> None:
    fields = {key: value for key, value in fields.items() if key not in ("id", "name")}
    index = _has_patch(document, row_id)
    if index is None:
        document.insert(len(document.items), {"id": row_id, **fields})
        return
    from ._edit import set_fields

    document.change(index, lambda item, convert: set_fields(item, fields, convert))


def _has_patch(document: Document, row_id: str) -> int | None:
    """The last entry that changes fields of that row: it wins over those before it."""
    for index in reversed(range(len(document.items))):
        entry = cast("Mapping[str, object]", document.items[index])
        if entry.get("id") == row_id and "insert" not in entry:
            return index
    return None


def _inserted(document: Document, row_id: str, file: Path) -> tuple[int | str, ...] | None:
    """The path to a row that this file inserts."""
    for index, entry in enumerate(document.items):
        rows = cast("Mapping[str, object]", entry).get("insert")
        if isinstance(rows, list):
            path = _find(cast("list[object]", rows), row_id, lambda row: str(row.get("id")))
            if path is not None:
                return (index, "insert", *path)
    return _inserted_nameless(document.items, row_id, file)


def _inserted_nameless(
    items: list[object], row_id: str, file: Path
) -> tuple[int | str, ...] | None:
    """The same for a row whose id is derived from its place, in a file that can be used."""
    try:
        patches = parse_patches(items, where=str(file), base=str(file.parent.absolute()))
    except IncludeError:
        return None
    for index, (entry, patch) in enumerate(zip(items, patches, strict=True)):
        if patch.insert is not None:
            rows = cast("dict[str, list[object]]", entry)["insert"]
            ids = _noted(rows, patch.insert)
            path = _find(rows, row_id, lambda row: ids[id(row)])  # noqa: B023 - used before the next
            if path is not None:
                return (index, "insert", *path)
    return None


def _take_out(document: Document, row_id: str, file: Path) -> bool:
    """Remove an inserted row and the patches of it. Whether the file inserted it."""
    path = _inserted(document, row_id, file)
    if path is None:
        return False
    index, *rest = path
    assert isinstance(index, int)
    rows = cast("list[object]", cast("Mapping[str, object]", document.items[index])["insert"])
    if len(rest) == 2 and len(rows) == 1:
        document.delete(index)
    else:
        document.change(index, lambda item, _convert: _delete_at(item, rest))
    while (patch := _has_patch(document, row_id)) is not None:
        document.delete(patch)
    return True


# -- rows -----------------------------------------------------------------------------------------


def _row_path(items: list[object], row_id: str, file: Path) -> tuple[int | str, ...]:
    ids = _ids(items, file)
    path = _find(items, row_id, lambda row: ids.get(id(row), ""))
    if path is None:
        raise IncludeError(f"{file} has no row {row_id!r}", code="CONFIG_INVALID")
    return path


def _ids(items: list[object], file: Path) -> dict[int, str]:
    """The id of each row of a file, also of those that get one from their place."""
    base = str(file.parent.absolute())
    return _noted(items, parse_rows(items, where=str(file), base=base, origin=str(file)))


def _noted(values: list[object], rows: tuple[Row, ...]) -> dict[int, str]:
    result: dict[int, str] = {}
    for value, row in zip(values, rows, strict=True):
        result[id(value)] = row.id
        if row.children:
            result |= _noted(cast("dict[str, list[object]]", value)["config"], row.children)
    return result


def _find(
    rows: list[object], row_id: str, name: Callable[[Mapping[str, object]], str]
) -> tuple[int | str, ...] | None:
    for index, value in enumerate(rows):
        row = cast("Mapping[str, object]", value)
        if name(row) == row_id:
            return (index,)
        children = row.get("config")
        if row.get("name") == "cordis:group" and isinstance(children, list):
            below = _find(cast("list[object]", children), row_id, name)
            if below is not None:
                return (index, "config", *below)
    return None


def _edit_row(
    document: Document, path: tuple[int | str, ...], fields: Mapping[str, object]
) -> None:
    from ._edit import set_fields

    index, *rest = path
    assert isinstance(index, int)
    kept = {key: value for key, value in fields.items() if value is not None}

    def edit(item: Any, convert: Convert) -> None:  # noqa: ANN401 - plain or round-trip mapping
        row = _at(item, rest)
        for key in fields:
            if key not in kept and key in row:
                del row[key]
        set_fields(row, kept, convert)

    document.change(index, edit)


def _delete_row(document: Document, path: tuple[int | str, ...], file: Path) -> dict[str, object]:
    """Take a row out; returns its fields with the id that it had."""
    index, *rest = path
    assert isinstance(index, int)
    value = cast("dict[str, object]", _at(document.items[index], rest))
    fields = {"id": _ids(document.items, file)[id(value)], **value}
    if rest:
        document.change(index, lambda item, _convert: _delete_at(item, rest))
    else:
        document.delete(index)
    return fields


def _add_row(
    document: Document, fields: Mapping[str, object], change: RowChange, file: Path
) -> None:
    end = len(document.items) if change.position is None else change.position
    if change.parent is None:
        document.insert(end, fields)
        return
    index, *rest = _row_path(document.items, change.parent, file)
    assert isinstance(index, int)

    def edit(item: Any, convert: Convert) -> None:  # noqa: ANN401 - plain or round-trip mapping
        group = _at(item, rest)
        if not group.get("config"):
            group["config"] = convert([fields])
            return
        rows = group["config"]
        rows.insert(len(rows) if change.position is None else change.position, convert(fields))

    document.change(index, edit)


def _at(item: Any, path: list[int | str]) -> Any:  # noqa: ANN401 - plain or round-trip value
    for step in path:
        item = item[step]
    return item


def _delete_at(item: Any, path: list[int | str]) -> None:  # noqa: ANN401 - plain or round-trip value
    del _at(item, path[:-1])[path[-1]]


def _stored(fields: Mapping[str, object], row: Row) -> dict[str, object]:
    """A new row as a file says it, in the usual order of keys."""
    return {key: fields[key] for key in row_fields(row) if key in fields}


# -- files ----------------------------------------------------------------------------------------


def _opened(file: Path) -> Document:
    from ._edit import JsonDocument, ListDocument

    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        text = "[]\n"
    except (OSError, UnicodeDecodeError) as error:
        raise IncludeError(f"cannot edit {file}: {error}", code="CONFIG_UNREADABLE") from None
    kind = JsonDocument if file.suffix == ".json" else ListDocument
    try:
        return kind(text, where=str(file))
    except LoaderError as error:
        raise IncludeError(f"cannot edit {error}", code="CONFIG_UNPARSABLE") from None


def _commit(file: Path, document: Document, valid: Check, check: Check | None) -> bytes:
    data = document.text.encode()
    valid(data)
    if check is not None:
        check(data)
    return _write(file, data)


def _write(file: Path, data: bytes) -> bytes:
    from dsh_atomic_write import write_file_atomic

    # Through a link to the file that it stands for: the link is the user's.
    target = file.resolve()
    if target.exists():
        if not os.access(target, os.W_OK):
            raise IncludeError(f"cannot overwrite readonly config {file}", code="CONFIG_READONLY")
        last = target.read_bytes()
        if last == data:
            return data
        write_file_atomic(target.with_name(target.name + LAST_GOOD), last)
    write_file_atomic(target, data)
    return data


def _checked_patches(file: Path) -> Check:
    def check(data: bytes) -> None:
        parsed_patches(data, file=file)

    return check


def _checked_rows(file: Path) -> Check:
    def check(data: bytes) -> None:
        from ._carriers import parsed_rows

        parsed_rows(data, file=file)

    return check
