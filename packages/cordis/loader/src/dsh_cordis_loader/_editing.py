"""Changes of single rows, made in the tree and then written down."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from dsh_cordis import FiberState, Internal, validate_config

from ._entry import ENTRY_META, Entry, Members
from ._errors import LoaderError
from ._listing import placed, substituted, without
from ._rows import Row, holds_expression, parse_row, row_fields
from ._store import RowChange, RowStore
from ._transaction import check_unique

if TYPE_CHECKING:
    from dsh_cordis import Context, Fiber, Next

Commit: TypeAlias = Callable[[Members, Sequence[Row], Callable[[], None]], Awaitable[None]]
"""Makes one list equal the rows, or raises and changes nothing; the last argument may refuse."""

_log = logging.getLogger("dsh.cordis.loader")
_EDIT = "a change at run time"


class Editor:
    """Creates, changes and removes single rows; hears of changes that plugins make themselves."""

    def __init__(self, own: Context, root: Members, commit: Commit) -> None:
        self._own = own
        self._root = root
        self._commit = commit
        self._saving = asyncio.Lock()
        self.root_store: RowStore | None = None
        own.on(Internal.PLUGIN, self._on_plugin, unscoped=True)
        own.on(Internal.UPDATE, self._on_update, prepend=True, unscoped=True)

    # -- asked for ----------------------------------------------------------------------------

    def resolve(self, entry_id: str) -> Entry:
        """The entry of that id. Raises LoaderError (`UNKNOWN_ENTRY`) naming near ones."""
        entries = {entry.id: entry for entry in self._root.walk()}
        if entry_id not in entries:
            import difflib  # only a mistake pays for it

            near = difflib.get_close_matches(entry_id, entries, n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise LoaderError(f"no loader entry {entry_id!r}{hint}", code="UNKNOWN_ENTRY")
        return entries[entry_id]

    async def create(
        self, fields: Mapping[str, object], *, parent: str | None, position: int | None
    ) -> Entry:
        members = self._members(parent)
        tree = members.tree
        fields = {**fields, "id": fields.get("id") or os.urandom(4).hex()}
        file = tree.source.file if tree.source is not None else None
        row = parse_row(
            fields,
            where="new row",
            base=None if file is None else str(file.parent),
            origin=_EDIT if file is None else str(file),
        )
        holder = None if members is tree else _owner(members)
        rows = placed(tree.rows(), row, parent=holder, position=position)
        check_unique(rows)
        await self._commit(tree, rows, lambda: _check_config(members.entries[row.id]))
        await self._save(
            tree,
            RowChange(
                kind="create",
                row_id=row.id,
                row=row,
                fields=fields,
                parent=holder,
                position=position,
            ),
        )
        return members.entries[row.id]

    async def update(
        self,
        entry_id: str,
        fields: Mapping[str, object],
        *,
        parent: str | msgspec.UnsetType | None,
        position: int | None,
    ) -> Entry:
        entry = self.resolve(entry_id)
        old, target = entry.row, entry.within
        if parent is not msgspec.UNSET:
            target = self._members(parent)
            self._check_move(entry, target)
        row = _updated(old, fields)
        tree = target.tree
        holder = None if target is tree else _owner(target)
        if target is entry.within and position is None:
            rows = substituted(tree.rows(), row)
        else:
            rows = placed(without(tree.rows(), row.id), row, parent=holder, position=position)
        check_unique(rows)
        await self._commit(tree, rows, lambda: _check_config(target.entries[row.id]))
        await self._save(
            tree,
            RowChange(
                kind="update",
                row_id=row.id,
                row=row,
                fields=dict(fields),
                parent=holder,
                position=position,
                moved=target is not entry.within,
            ),
        )
        return target.entries[row.id]

    async def remove(self, entry_id: str) -> None:
        entry = self.resolve(entry_id)
        tree = entry.within.tree
        holder = None if entry.within is tree else _owner(entry.within)
        await self._commit(tree, without(tree.rows(), entry.row.id), _nothing)
        await self._save(
            tree, RowChange(kind="remove", row_id=entry.row.id, row=None, parent=holder)
        )

    def _members(self, parent: str | None) -> Members:
        if parent is None:
            return self._root
        entry = self.resolve(parent)
        if entry.members is None:
            raise LoaderError(
                f"loader entry {parent!r} holds no rows now: it is no group or include, or does"
                " not run",
                code="INVALID_ROW",
            )
        return entry.members

    def _check_move(self, entry: Entry, target: Members) -> None:
        if target.tree is not entry.within.tree:
            raise LoaderError(
                f"loader entry {entry.id!r} cannot leave its file; remove it and create another",
                code="INVALID_ROW",
            )
        owner = target.owner
        while owner is not None:
            if owner is entry:
                raise LoaderError(
                    f"loader entry {entry.id!r} cannot be moved into itself", code="INVALID_ROW"
                )
            owner = owner.within.owner

    # -- heard of -------------------------------------------------------------------------------

    def _on_plugin(self, fiber: Fiber) -> None:
        entry = fiber.ctx.meta(ENTRY_META)
        if not isinstance(entry, Entry):
            return
        if fiber.uid is not None:
            # What a row waits for, everything below it waits for.
            for name, key in entry.gates.items():
                fiber.inject.setdefault(name, key)
        elif entry.fiber is fiber and not _leaving(fiber.parent):
            entry.fiber = entry.members = None
            entry.record(msgspec.structs.replace(entry.row, disabled=True))
            self._save_later(entry, {"disabled": True})

    async def _on_update(
        self,
        fiber: Fiber,
        config: object,
        no_save: bool,  # noqa: FBT001 - the event's shape
        next: Next[None],
    ) -> None:
        await next()
        entry = fiber.ctx.meta(ENTRY_META)
        if no_save or not isinstance(entry, Entry) or entry.fiber is not fiber:
            return
        if entry.row.children is None:
            plain = _plain(config)
            entry.record(msgspec.structs.replace(entry.row, config=plain, config_from=_EDIT))
            self._save_later(entry, {"config": plain})

    # -- written down -----------------------------------------------------------------------------

    def _save_later(self, entry: Entry, fields: dict[str, object]) -> None:
        tree = entry.within.tree
        change = RowChange(
            kind="update",
            row_id=entry.row.id,
            row=entry.row,
            fields=fields,
            parent=None if entry.within is tree else _owner(entry.within),
        )
        # With `stop`: what is to be written is written before the loader ends.
        self._own.spawn(self._save_quietly, tree, change, stop=_nothing, name="loader save")

    async def _save_quietly(self, tree: Members, change: RowChange) -> None:
        # Containment: `_save` has logged it, and nobody waits for it.
        with contextlib.suppress(Exception):
            await self._save(tree, change)

    async def _save(self, tree: Members, change: RowChange) -> None:
        store = self.root_store if tree.source is None else tree.source.store
        if store is None:
            return
        async with self._saving:
            try:
                await store.save(change)
            except Exception as error:
                _log.error(
                    "%s of loader entry %s runs but could not be stored: %s",
                    change.kind,
                    tree.prefix + change.row_id,
                    error,
                )
                raise


def _updated(old: Row, fields: Mapping[str, object]) -> Row:
    if fields.get("id", old.id) != old.id:
        raise LoaderError(
            f"row {old.id!r}: `id` cannot change; remove the row and create another",
            code="INVALID_ROW",
        )
    values = {**row_fields(old), **fields}
    keeps_children = old.children is not None and "config" not in fields and "name" not in fields
    if keeps_children:
        values.pop("config", None)
    values = {key: value for key, value in values.items() if value is not None}
    row = parse_row(values, where=f"update of {old.id}", base=old.base, origin=old.origin)
    return msgspec.structs.replace(
        row,
        children=old.children if keeps_children else row.children,
        patched_by=old.patched_by,
        config_from=_EDIT if "config" in fields else old.config_from,
    )


def _check_config(entry: Entry) -> None:
    """Raises ConfigError for a row that waits: its configuration was not validated by starting."""
    fiber, plugin = entry.fiber, entry.plugin
    if fiber is None or fiber.state is not FiberState.PENDING:
        return
    if isinstance(plugin, ModuleType):
        plugin = vars(plugin).get("default", plugin)
    kind: type[object] | None = getattr(plugin, "Config", None)
    if kind is not None and not holds_expression(entry.row.config):
        validate_config(kind, entry.row.config, where=entry.id)


def _plain(config: object) -> object:
    """Configuration as a file holds it: what was given as a model, less its defaults."""
    if isinstance(config, msgspec.Struct):
        values = cast("dict[str, object]", msgspec.to_builtins(config))
        defaults = {
            field.encode_name: field.default
            for field in msgspec.structs.fields(config)
            if field.default is not msgspec.NODEFAULT
        }
        return {k: v for k, v in values.items() if k not in defaults or defaults[k] != v}
    dump: Any = getattr(config, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_defaults=True) if callable(dump) else config


def _owner(members: Members) -> str | None:
    return None if members.owner is None else members.owner.row.id


def _leaving(fiber: Fiber | None) -> bool:
    """Whether an owner ends, and with it everything below."""
    while fiber is not None:
        if fiber.uid is None or fiber.state is FiberState.UNLOADING:
            return True
        fiber = fiber.parent
    return False


def _nothing() -> None: ...
