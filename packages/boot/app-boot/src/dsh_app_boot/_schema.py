"""A JSON Schema of patch files: what an editor can say about a row before anything boots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from dsh_cordis_loader import resolve_plugin, walk_rows

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints, Row

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_GROUP: Final = "cordis:group"
_INCLUDE: Final = "cordis:include"
_SERVICE_NAME: Final = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"
_FREE_NAMES: Final = (
    (r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$", "an object of an installed module: `module:attr`"),
    (r"^(\.{1,2}/|/|[A-Za-z]:[/\\]).*\.py(:[A-Za-z_][\w.]*)?$", "a Python file beside this one"),
)
_EXPRESSION: Final[Mapping[str, object]] = {
    # What an expression can say that a plain value cannot needs one of these names.
    "description": "The text of an expression, written `!expr ...`.",
    "type": "string",
    "pattern": r"\b(env|platform|cwd|ctx|dsh_home|coalesce|int|json)\b",
}


def config_schema(rows: Sequence[Row], entry_points: EntryPoints) -> dict[str, Any]:
    """A JSON Schema (2020-12) of the patch files of a composition with these rows.

    Imports every plugin that the rows name or that is installed. A name among those whose plugin
    cannot be imported may have any configuration, and the schema says why; nothing is raised. An
    expression stands in a schema as its text, because that is what editors show a schema.
    """
    named = {row.name for row in walk_rows(rows)} - {_GROUP, _INCLUDE}
    names = sorted({*entry_points["dsh.plugins"], *named})
    configs = _Configs(entry_points)
    by_name = {name: configs.of(name) for name in names}
    by_id = {row.id: row.name for row in walk_rows(rows) if row.name in by_name}
    return {
        "$schema": _DIALECT,
        "title": "cordis.patch.yml",
        "description": "Patches, applied in order: `insert` adds rows, `id` changes a row.",
        "type": "array",
        "items": {
            "if": {"type": "object", "required": ["insert"]},
            "then": {"$ref": "#/$defs/insert"},
            "else": {"$ref": "#/$defs/change"},
        },
        "$defs": {
            "insert": _insert(),
            "change": _change([row.id for row in walk_rows(rows)], by_id, by_name),
            "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
            "row": _row(names, by_name, configs.required),
            "expression": dict(_EXPRESSION),
            "include": _include(),
            **configs.definitions,
        },
    }


class _Configs:
    """The schemas of plugins' configurations, each made once."""

    def __init__(self, entry_points: EntryPoints) -> None:
        self.definitions: dict[str, object] = {}
        self.required: set[str] = set()
        """Names of plugins that do not start without configuration."""
        self._entry_points = entry_points

    def of(self, name: str) -> str:
        """The name of the definition that says what the plugin called `name` takes."""
        key = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")
        while f"config-{key}" in self.definitions:
            key += "-"
        key = f"config-{key}"
        # Reserved first: a model's references name the definition they stand in.
        self.definitions[key] = {}
        self.definitions[key] = self._make(name, key)
        return key

    def _make(self, name: str, key: str) -> dict[str, Any]:
        from ._config_schema import model_schema  # only an editor's schema needs it

        try:
            plugin = resolve_plugin(name, entry_points=self._entry_points, builtins={})
            kind = _config_of(plugin)
            if kind is None:
                return {"description": f"{name} takes any configuration."}
            schema = model_schema(kind, pointer=f"#/$defs/{key}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's own code, of any quality
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            text = f"{name} cannot be checked: {reason}"
            return {"description": text, "$comment": text}
        if schema.pop("required"):
            self.required.add(name)
            return schema
        schema["anyOf"].append({"type": "null"})
        return schema


def _config_of(plugin: object) -> type | None:
    """The `Config` of a plugin in any of its forms."""
    while isinstance(plugin, ModuleType) and "default" in vars(plugin):
        plugin = vars(plugin)["default"]
    return getattr(plugin, "Config", None)


def _insert() -> dict[str, Any]:
    return {
        "description": "Rows to add: at the top, or to the group `id`.",
        "type": "object",
        "required": ["insert"],
        "properties": {
            "id": {"description": "The group that gets the rows.", "type": "string"},
            "name": {"description": "Skip unless the row has this name.", "type": "string"},
            "insert": {"$ref": "#/$defs/rows"},
        },
        "additionalProperties": False,
    }


def _change(
    ids: Sequence[str], by_id: Mapping[str, str], by_name: Mapping[str, str]
) -> dict[str, Any]:
    known = list(dict.fromkeys(ids))
    return {
        "description": "Replaces each field it gives, whole; null resets a field.",
        "type": "object",
        "required": ["id"],
        "properties": {
            # An id may also come from a layer that another profile has, so none is refused.
            "id": {
                "description": "The row to change.",
                "anyOf": [{"enum": known}, {"type": "string", "minLength": 1}],
            },
            "name": {"description": "Skip unless the row has this name.", "type": "string"},
            **_fields(),
        },
        "additionalProperties": False,
        "allOf": [
            _when("id", row_id, {"properties": {"config": _ref(by_name[name])}})
            for row_id, name in by_id.items()
        ],
    }


def _row(names: Sequence[str], by_name: Mapping[str, str], required: set[str]) -> dict[str, Any]:
    known = [name for name in names if not _is_file(name)]
    free = [
        {"type": "string", "pattern": shape, "description": text} for shape, text in _FREE_NAMES
    ]
    rules = [
        _when("name", _GROUP, {"properties": {"config": _nullable(_ref("rows"))}}),
        _when(
            "name", _INCLUDE, {"required": ["config"], "properties": {"config": _ref("include")}}
        ),
    ]
    for name, key in by_name.items():
        rule: dict[str, Any] = {"properties": {"config": _ref(key)}}
        if name in required:
            rule["required"] = ["config"]
        rules.append(_when("name", _written(name, by_name), rule))
    return {
        "description": "One configured plugin.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "id": {
                "description": "Identity for patches; unique.",
                "type": ["string", "null"],
                "minLength": 1,
            },
            "name": {
                "description": "The plugin.",
                "anyOf": [{"enum": [*known, _GROUP, _INCLUDE]}, *free],
            },
            **_fields(),
        },
        "additionalProperties": False,
        "allOf": rules,
    }


def _fields() -> dict[str, Any]:
    """What rows and changes have in common."""
    service = {"type": "string", "pattern": _SERVICE_NAME}
    return {
        "disabled": {
            "description": "Not mounted, but kept.",
            "anyOf": [{"type": ["boolean", "null"]}, _ref("expression")],
            "default": False,
        },
        "group": {
            "description": "Whether patches reach the rows of this group.",
            "type": ["boolean", "null"],
            "default": False,
        },
        "inject": {
            "description": "Services to wait for, beside those that the plugin injects.",
            "type": ["array", "null"],
            "items": service,
        },
        "isolate": {
            "description": "Service to realm: true for one of its own, text for a shared one.",
            "type": ["object", "null"],
            "propertyNames": service,
            "additionalProperties": {
                "anyOf": [{"const": True}, {"type": "string", "pattern": r"\S"}, {"type": "null"}]
            },
        },
        "intercept": {
            "description": "Service to settings for what this row asks of it.",
            "type": ["object", "null"],
            "propertyNames": service,
            "additionalProperties": {"type": ["object", "null"]},
        },
        "config": {"description": "What the plugin gets; `!expr` may stand anywhere in it."},
    }


def _include() -> dict[str, Any]:
    return {
        "description": "Mounts the rows of another file.",
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": {"description": "The file, from this one.", "type": "string", "minLength": 1},
            "initial": _nullable(_ref("rows")),
            "patches": _nullable({"type": "array", "items": {"type": "object"}}),
        },
        "additionalProperties": False,
    }


def _is_file(name: str) -> bool:
    return PurePath(name).is_absolute()


def _written(name: str, names: Iterable[str]) -> str | dict[str, Any]:
    """How files call the plugin: rows have the whole path of one that a file calls `./x.py`."""
    if not _is_file(name):
        return name
    last = PurePath(name).name
    if [PurePath(one).name for one in names if _is_file(one)].count(last) > 1:
        return name
    return {"type": "string", "pattern": f"(^|/){re.escape(last)}$"}


def _when(
    field: str, value: str | Mapping[str, object], then: Mapping[str, object]
) -> dict[str, Any]:
    fits = {"const": value} if isinstance(value, str) else dict(value)
    return {"if": {"required": [field], "properties": {field: fits}}, "then": dict(then)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _nullable(schema: Mapping[str, object]) -> dict[str, Any]:
    return {"anyOf": [dict(schema), {"type": "null"}]}
