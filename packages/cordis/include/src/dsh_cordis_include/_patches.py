"""Patches: how a layer changes the rows below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec
from dsh_cordis_loader import (
    LoaderError,
    Row,
    anchor_name,
    check_row_fields,
    parse_rows,
    read_yaml,
    walk_rows,
    with_children,
)

from ._errors import IncludeError

Warn: TypeAlias = Callable[[str, str], None]
"""Hears `(layer, message)` for a patch that was skipped."""

_META: Final = ("id", "name", "insert")


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """One patch, its rows and fields already checked."""

    layer: str
    """Name of the layer, for provenance and warnings."""
    where: str
    """Position in its file, for errors."""
    base: str | None = None
    """Directory that relative plugin files start from."""
    id: str | None = None
    name: str | None = None
    """Guard: the patch applies only to a row of this name."""
    insert: tuple[Row, ...] | None = None
    fields: Mapping[str, object] = msgspec.field(default_factory=dict[str, object])
    """Fields to replace whole; a field set to null in the file resets it."""


def read_patch_file(
    file: str | Path, *, layer: str | None = None, required: bool = True
) -> tuple[Patch, ...]:
    """The patches of one file; none if it is absent and not `required`.

    `layer` names the layer, by default the file's path. Raises IncludeError with the file's name:
    unreadable, unparsable, not a list, an entry that is no mapping or no valid patch.
    """
    file = Path(file)
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        if not required:
            return ()
        raise IncludeError(
            f"failed to read patches {file}: {error.strerror}", code="CONFIG_NOT_FOUND"
        ) from None
    except OSError as error:
        raise IncludeError(
            f"failed to read patches {file}: {error.strerror or error}", code="CONFIG_UNREADABLE"
        ) from None
    return parsed_patches(data, file=file, layer=layer)


def parsed_patches(data: bytes, *, file: Path, layer: str | None = None) -> tuple[Patch, ...]:
    """The patches that `data` holds as the content of `file`. Raises IncludeError."""
    try:
        value = read_yaml(data, where=str(file))
    except LoaderError as error:
        raise IncludeError(f"failed to parse patches {error}", code="CONFIG_UNPARSABLE") from None
    return parse_patches(value, where=str(file), base=str(file.parent.absolute()), layer=layer)


def parse_patches(
    value: object, *, where: str, base: str | None = None, layer: str | None = None
) -> tuple[Patch, ...]:
    """Patches from a list as `read_yaml` gives it. Raises IncludeError (`CONFIG_INVALID`)."""
    if not isinstance(value, list):
        hint = "; write [] for none" if value is None else ""
        raise IncludeError(
            f"{where} must be a top-level YAML array of loader patch entries{hint}",
            code="CONFIG_INVALID",
        )
    patches: list[Patch] = []
    for index, entry in enumerate(cast("list[object]", value), 1):
        position = f"patches entry {index} in {where}"
        if not isinstance(entry, Mapping):
            raise IncludeError(
                f"{position} must be a mapping with `insert` or `id`", code="CONFIG_INVALID"
            )
        fields = cast("Mapping[str, object]", entry)
        try:
            patches.append(_patch(fields, where=position, base=base, layer=layer or where))
        except LoaderError as error:
            raise IncludeError(str(error), code="CONFIG_INVALID") from None
    return tuple(patches)


def apply_patches(rows: Sequence[Row], patches: Iterable[Patch], *, warn: Warn) -> tuple[Row, ...]:
    """The rows after all patches in order; neither argument is changed.

    A patch that finds no target is skipped and told to `warn`. Raises IncludeError only if a
    group's new `config` is no list of rows.
    """
    composition = _Composition(tuple(rows), warn)
    for patch in patches:
        composition.apply(patch)
    return composition.rows


class _Composition:
    """Rows being patched, and which of their ids later patches may name."""

    def __init__(self, rows: tuple[Row, ...], warn: Warn) -> None:
        self.rows = rows
        self._warn = warn
        self._known: set[str] = set()
        self._admit(rows)

    def apply(self, patch: Patch) -> None:
        if patch.insert is not None:
            self._insert(patch, patch.insert)
        elif patch.id is None:
            self._warn(patch.layer, "patch: id is required for non-insert patches")
        else:
            self._change(patch, patch.id)

    def _insert(self, patch: Patch, rows: tuple[Row, ...]) -> None:
        if patch.id is None:
            self.rows = (*self.rows, *rows)
            self._admit(rows)
            return
        target = self._find(patch, patch.id)
        if target is None:
            return
        if not target.group:
            self._warn(patch.layer, f'patch: entry "{patch.id}" is not a group, nothing inserted')
            return
        children = (*(target.children or ()), *rows)
        self._replace(
            msgspec.structs.replace(
                target, children=children, patched_by=_marked(target.patched_by, patch.layer)
            )
        )
        self._admit(rows)

    def _change(self, patch: Patch, row_id: str) -> None:
        target = self._find(patch, row_id)
        if target is None:
            return
        changed = _changed(target, patch)
        if changed.children is not target.children:
            # The new children belong to this patch alone: later patches do not know them.
            self._known -= {row.id for row in walk_rows(target.children or ())}
        self._replace(changed)

    def _find(self, patch: Patch, row_id: str) -> Row | None:
        target = _search(self.rows, row_id) if row_id in self._known else None
        if target is None:
            self._warn(patch.layer, f'patch: entry "{row_id}" not found')
        elif patch.name is not None and patch.name != target.name:
            self._warn(
                patch.layer,
                f'patch: entry "{row_id}" is {target.name!r}, not {patch.name!r}; skipped',
            )
            return None
        return target

    def _replace(self, row: Row) -> None:
        self.rows = _substitute(self.rows, row)

    def _admit(self, rows: tuple[Row, ...]) -> None:
        for row in rows:
            self._known.add(row.id)
            if row.group:
                self._admit(row.children or ())


def _patch(entry: Mapping[str, object], *, where: str, base: str | None, layer: str) -> Patch:
    row_id, name = entry.get("id"), entry.get("name")
    for key, value in (("id", row_id), ("name", name)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise LoaderError(f"{where}: `{key}` must be text", code="INVALID_ROW")
    row_id, name = cast("str | None", row_id), cast("str | None", name)
    if name is not None:
        name = anchor_name(name, base)
    if "insert" in entry:
        rows = parse_rows(entry["insert"], where=where, base=base, origin=layer)
        return Patch(layer=layer, where=where, base=base, id=row_id, name=name, insert=rows)
    rest = {key: value for key, value in entry.items() if key not in _META}
    fields = check_row_fields(rest, where=where)
    fields.update({key: None for key in rest if key not in fields})
    return Patch(layer=layer, where=where, base=base, id=row_id, name=name, fields=fields)


def _changed(target: Row, patch: Patch) -> Row:
    resets: dict[str, object] = {
        "group": False,
        "disabled": False,
        "inject": (),
        "isolate": {},
        "intercept": {},
        "config": None,
    }
    fields = {key: resets[key] if value is None else value for key, value in patch.fields.items()}
    if "config" in fields:
        fields["config_from"] = patch.layer
        if target.children is not None:
            fields["children"] = None
    changed = msgspec.structs.replace(
        target, **fields, patched_by=_marked(target.patched_by, patch.layer)
    )
    try:
        result = with_children(
            msgspec.structs.replace(changed, origin=patch.layer), where=patch.where, base=patch.base
        )
    except LoaderError as error:
        raise IncludeError(str(error), code="CONFIG_INVALID") from None
    return msgspec.structs.replace(result, origin=target.origin)


def _marked(layers: tuple[str, ...], layer: str) -> tuple[str, ...]:
    return layers if layer in layers else (*layers, layer)


def _search(rows: tuple[Row, ...], row_id: str) -> Row | None:
    for row in rows:
        if row.id == row_id:
            return row
        found = _search(row.children, row_id) if row.group and row.children else None
        if found is not None:
            return found
    return None


def _substitute(rows: tuple[Row, ...], changed: Row) -> tuple[Row, ...]:
    for index, row in enumerate(rows):
        if row.id == changed.id:
            return (*rows[:index], changed, *rows[index + 1 :])
        if row.group and row.children:
            children = _substitute(row.children, changed)
            if children is not row.children:
                group = msgspec.structs.replace(row, children=children)
                return (*rows[:index], group, *rows[index + 1 :])
    return rows
