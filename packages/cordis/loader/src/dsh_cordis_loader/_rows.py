"""Rows: one configured plugin each, as a file says it and as the tree keeps it."""

from __future__ import annotations

import os.path
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

import msgspec

from ._errors import LoaderError
from ._expr import Expr

GROUP: Final = "cordis:group"
ROW_FIELDS: Final = (
    "id",
    "name",
    "group",
    "disabled",
    "inject",
    "isolate",
    "intercept",
    "config",
)
_SERVICE_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Immutable: a patch or an update makes another."""

    id: str
    """Identity for patches and reconciliation, unique in its tree."""
    name: str
    """The plugin: entry point, `module:attr`, absolute path of a file, or `cordis:<builtin>`."""
    group: bool = False
    """Whether patches descend into `children`."""
    disabled: bool | Expr = False
    inject: tuple[str, ...] = ()
    """Services that this row and every fiber below it wait for, beside the plugins' own."""
    isolate: Mapping[str, Literal[True] | str] = msgspec.field(
        default_factory=dict[str, Literal[True] | str]
    )
    """Services that stand in another realm for the row and what is below it: True is a private
    one, a text the one that all rows with this text share.
    """
    intercept: Mapping[str, Mapping[str, object]] = msgspec.field(
        default_factory=dict[str, Mapping[str, object]]
    )
    """Settings by service for the row and what is below it, merged over those from outside."""
    config: object = None
    """As written, with `Expr` nodes at any depth; None for a row with children."""
    children: tuple[Row, ...] | None = None
    """The rows of a `cordis:group`; None for every other row."""
    origin: str = ""
    """The layer that brought the row in."""
    base: str | None = None
    """The directory of the file that it comes from."""
    patched_by: tuple[str, ...] = ()
    """The layers that changed it since, in order, each once."""
    config_from: str = ""
    """The layer that set `config` last; empty if that is `origin`."""


def parse_rows(value: object, *, where: str, base: str | None, origin: str) -> tuple[Row, ...]:
    """Rows from a list as `read_yaml` gives it.

    `base` is the directory that relative plugin files start from. Raises LoaderError
    (`INVALID_ROW`) naming `where`, the row's position and the field.
    """
    if not isinstance(value, list):
        raise _invalid(where, f"expected a list of rows, got {describe(value)}")
    return tuple(
        parse_row(item, where=f"{where}, row {index}", base=base, origin=origin)
        for index, item in enumerate(cast("list[object]", value), 1)
    )


def parse_row(value: object, *, where: str, base: str | None, origin: str) -> Row:
    """One row from a mapping. Raises LoaderError (`INVALID_ROW`)."""
    if not isinstance(value, Mapping):
        raise _invalid(where, f"expected a mapping, got {describe(value)}")
    fields = cast("Mapping[str, object]", value)
    name = fields.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _invalid(where, f"`name` must be the name of a plugin, got {describe(name)}")
    row_id = fields.get("id")
    if row_id is None:
        # Derived, not random: a dump of the same files is the same text.
        row_id = f"{zlib.crc32(f'{where}: {name}'.encode()):08x}"
    elif not isinstance(row_id, str) or not row_id.strip():
        raise _invalid(where, f"`id` must be text, got {describe(row_id)}")
    where = f"{where} ({row_id})"
    known = check_row_fields(fields, where=where)
    row = Row(
        id=row_id,
        name=anchor_name(name, base),
        group=cast("bool", known.get("group", False)),
        disabled=cast("bool | Expr", known.get("disabled", False)),
        inject=cast("tuple[str, ...]", known.get("inject", ())),
        isolate=cast("Mapping[str, Literal[True] | str]", known.get("isolate", {})),
        intercept=cast("Mapping[str, Mapping[str, object]]", known.get("intercept", {})),
        config=known.get("config"),
        origin=origin,
        base=base,
    )
    return with_children(row, where=where, base=base)


def with_children(row: Row, *, where: str, base: str | None) -> Row:
    """The row with its `config` read as child rows if it is a group. Raises LoaderError."""
    if row.name != GROUP:
        if row.group:
            raise _invalid(where, f"`group: true` needs `name: {GROUP}`, got {row.name!r}")
        return row
    if row.config is None:
        return row if row.children is not None else msgspec.structs.replace(row, children=())
    rows = parse_rows(row.config, where=where, base=base, origin=row.origin)
    return msgspec.structs.replace(row, config=None, children=rows)


def check_row_fields(fields: Mapping[str, object], *, where: str) -> dict[str, object]:
    """The fields of a row that are set (not null), converted; `id` and `name` are left out.

    Raises LoaderError (`INVALID_ROW`) for an unknown field or a value of the wrong kind.
    """
    result: dict[str, object] = {}
    for key, value in fields.items():
        if key not in ROW_FIELDS:
            import difflib  # only a mistake pays for it

            near = difflib.get_close_matches(key, ROW_FIELDS, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise _invalid(where, f"unknown field `{key}`{hint} (known: {', '.join(ROW_FIELDS)})")
        if key in ("id", "name"):
            continue
        if key == "config":
            result[key] = value
        elif value is not None:
            result[key] = _field(key, value, where)
    return result


def anchor_name(name: str, base: str | None) -> str:
    """The name with a relative plugin file made absolute, so that a row can move between files."""
    if base is not None and name.startswith(("./", "../")):
        return os.path.normpath(os.path.join(base, name))
    return name


def row_fields(row: Row) -> dict[str, object]:
    """The row as a file would say it: set fields only, `id`, `name`, alphabetical, `config`."""
    result: dict[str, object] = {"id": row.id, "name": row.name}
    if row.disabled is not False:
        result["disabled"] = row.disabled
    if row.group:
        result["group"] = True
    if row.inject:
        result["inject"] = list(row.inject)
    if row.intercept:
        result["intercept"] = {name: dict(settings) for name, settings in row.intercept.items()}
    if row.isolate:
        result["isolate"] = dict(row.isolate)
    if row.children is not None:
        result["config"] = [row_fields(child) for child in row.children]
    elif row.config is not None:
        result["config"] = row.config
    return result


def walk_rows(rows: Sequence[Row]) -> list[Row]:
    """Every row, parents before their children."""
    result: list[Row] = []
    for row in rows:
        result.append(row)
        if row.children:
            result.extend(walk_rows(row.children))
    return result


def holds_expression(value: object) -> bool:
    """Whether there is an `!expr` in it, at any depth."""
    if isinstance(value, Expr):
        return True
    if isinstance(value, Mapping):
        return any(holds_expression(item) for item in cast("Mapping[str, object]", value).values())
    return isinstance(value, (list, tuple)) and any(
        holds_expression(item) for item in cast("Sequence[object]", value)
    )


def describe(value: object) -> str:
    """What a value is, in the words of the file."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if len(value) > 40 else repr(value)
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "an expression" if isinstance(value, Expr) else repr(value)


def _field(key: str, value: object, where: str) -> object:
    if key == "inject":
        return _service_names(value, where)
    if key == "isolate":
        return _isolated(value, where)
    if key == "intercept":
        return _intercepted(value, where)
    if key == "disabled" and isinstance(value, Expr):
        return value
    if not isinstance(value, bool):
        kinds = "true, false or !expr" if key == "disabled" else "true or false"
        raise _invalid(where, f"`{key}` must be {kinds}, got {describe(value)}")
    return value


def _service_names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _invalid(where, f"`inject` must be a list of service names, got {describe(value)}")
    names: list[str] = []
    for name in cast("list[object]", value):
        if not isinstance(name, str) or not _SERVICE_NAME.match(name):
            raise _invalid(where, f"`inject`: {describe(name)} is no snake_case service name")
        names.append(name)
    return tuple(dict.fromkeys(names))


def _isolated(value: object, where: str) -> dict[str, Literal[True] | str]:
    result: dict[str, Literal[True] | str] = {}
    for name, label in _by_service("isolate", value, where).items():
        if label is None:
            continue
        if label is not True and not (isinstance(label, str) and label.strip()):
            raise _invalid(
                where,
                f"`isolate`: {name} must be true or the text of a label, got {describe(label)}",
            )
        result[name] = label
    return result


def _intercepted(value: object, where: str) -> dict[str, Mapping[str, object]]:
    result: dict[str, Mapping[str, object]] = {}
    for name, settings in _by_service("intercept", value, where).items():
        if settings is None:
            continue
        if not isinstance(settings, Mapping):
            raise _invalid(
                where,
                f"`intercept`: {name} must be a mapping of settings, got {describe(settings)}",
            )
        if holds_expression(cast("object", settings)):
            raise _invalid(where, f"`intercept`: {name} holds an !expr; settings are plain values")
        result[name] = cast("Mapping[str, object]", settings)
    return result


def _by_service(field: str, value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _invalid(where, f"`{field}` must be a mapping by service name, got {describe(value)}")
    named = cast("Mapping[str, object]", value)
    for name in named:
        if not _SERVICE_NAME.match(name):
            raise _invalid(where, f"`{field}`: {name!r} is no snake_case service name")
    return named


def _invalid(where: str, problem: str) -> LoaderError:
    return LoaderError(f"{where}: {problem}", code="INVALID_ROW")
