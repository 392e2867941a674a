"""Python types to the JSON schemas that tools are described and checked with.

msgspec (Structs, dataclasses, TypedDicts and plain types) and pydantic both write JSON schema; here
their two dialects become one: references inlined, generated titles gone, objects closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec
from dsh_lossless_json import FrozenDict, FrozenJson, OpenUnion

from ._errors import ToolSchemaError

_DROPPED: Final = frozenset({"title", "discriminator", "$defs", "contentEncoding", "$schema"})
_MAX_DEPTH: Final = 200
_MAX_PARTS: Final = 20_000


def is_pydantic_model(kind: object) -> bool:
    """Whether `kind` is a pydantic model class, told without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema")


def derive_schema(kind: object, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """What `kind` accepts, as a schema of the supported subset.

    A property whose default is null keeps its null alternative here; `offered_schema` hides it.
    Raises `ToolSchemaError` for a type that JSON cannot carry, or that contains itself.
    """
    if is_pydantic_model(kind):
        raw = cast("Any", kind).model_json_schema(mode=mode)
    else:
        try:
            raw = msgspec.json.schema(kind, schema_hook=_special)
        except (TypeError, ValueError, NameError) as error:
            raise ToolSchemaError((f"{_name(kind)} is not a JSON type: {error}",)) from error
    return _plain(inlined(_undocumented(raw)))


def offered_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` as a model sees it: leaving a key out is how to say null for an optional one."""
    out = dict(schema)
    if "anyOf" in out:
        out["anyOf"] = [offered_schema(one) for one in out["anyOf"]]
    if isinstance(out.get("items"), Mapping):
        out["items"] = offered_schema(out["items"])
    if isinstance(out.get("additionalProperties"), Mapping):
        out["additionalProperties"] = offered_schema(out["additionalProperties"])
    if "properties" in out:
        required = out.get("required", ())
        out["properties"] = {
            key: offered_schema(value if key in required else _without_null(value))
            for key, value in out["properties"].items()
        }
    return out


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` with its local references replaced by what they name.

    A reference that would never end, or leads nowhere, becomes an open schema marked `$ref`.
    """
    return _Inliner(schema).walk(schema, (), 0)


def _undocumented(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Without the docstrings of classes: they are for programmers, annotations are for models."""
    definitions = {
        name: {key: one for key, one in definition.items() if key != "description"}
        for name, definition in schema.get("$defs", {}).items()
    }
    rest = {key: one for key, one in schema.items() if key != "description"}
    return {**rest, "$defs": definitions} if definitions else rest


class _Inliner:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.left = _MAX_PARTS

    def walk(self, value: Any, seen: tuple[str, ...], depth: int) -> Any:  # noqa: ANN401 - any JSON
        self.left -= 1
        # References to references double at each level, so that depth alone bounds nothing.
        if self.left < 0 or depth > _MAX_DEPTH:
            raise ToolSchemaError(("the schema is too large once its references are inlined",))
        if isinstance(value, (list, tuple)):
            return [self.walk(one, seen, depth + 1) for one in cast("list[Any]", value)]
        if not isinstance(value, Mapping):
            return value
        fields = cast("Mapping[str, Any]", value)
        beside = {
            key: self.walk(one, seen, depth + 1)
            for key, one in fields.items()
            if key != "$ref" and (depth or key not in ("$defs", "definitions"))
        }
        reference = fields.get("$ref")
        if not isinstance(reference, str):
            return beside if reference is None else {**beside, "$ref": reference}
        target = None if reference in seen else self._target(reference)
        if not isinstance(target, Mapping):
            return {"$ref": reference, **beside}
        return {**self.walk(target, (*seen, reference), depth + 1), **beside}

    def _target(self, reference: str) -> Any:  # noqa: ANN401 - any JSON
        if not reference.startswith("#"):
            return None
        node: Any = self.root
        for step in reference[1:].split("/")[1:]:
            if not isinstance(node, Mapping):
                return None
            key = step.replace("~1", "/").replace("~0", "~")
            node = cast("Mapping[str, Any]", node).get(key)
        return node


def _special(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - msgspec's hook signature
    if is_pydantic_model(kind):
        return inlined(_undocumented(kind.model_json_schema()))
    if kind is FrozenJson:
        return {"title": "any"}  # msgspec takes an empty schema for none; titles are dropped
    if kind is FrozenDict or (isinstance(kind, type) and issubclass(kind, OpenUnion)):
        return {"type": "object"}
    raise NotImplementedError(f"{_name(cast('object', kind))} has no JSON form")


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """One dialect: what pydantic and msgspec generate, reduced to the subset."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        raise ToolSchemaError((f"{name} contains itself; tools need a type that ends",))
    out = {key: value for key, value in schema.items() if key not in _DROPPED}
    if len(out.get("allOf", ())) == 1:  # how a reference with a description is written at times
        out = {**out["allOf"][0], **{key: one for key, one in out.items() if key != "allOf"}}
    if "oneOf" in out:
        # Python's unions overlap (int is a number), so one fit is enough.
        out["anyOf"] = out.pop("oneOf")
    if "anyOf" in out:
        out["anyOf"] = [_plain(one) for one in out["anyOf"]]
    if "enum" in out and "type" not in out and (kind := _kind_of(out["enum"])):
        out = {"type": kind, **out}
    if "const" in out and "type" not in out and (kind := _kind_of([out["const"]])):
        out = {"type": kind, **out}
    if out.get("type") == "array":
        return _plain_array(out)
    if out.get("type") == "object":
        return _plain_object(out)
    return out


def _plain_array(out: dict[str, Any]) -> dict[str, Any]:
    prefix = out.pop("prefixItems", None)
    if prefix is not None:
        if any(one != prefix[0] for one in prefix):
            raise ToolSchemaError(("a tuple of different types; use a class with named fields",))
        out["items"] = prefix[0]
    if isinstance(out.get("items"), Mapping):
        out["items"] = _plain(out["items"])
    return out


def _plain_object(out: dict[str, Any]) -> dict[str, Any]:
    if "properties" in out:
        out["properties"] = {key: _plain(one) for key, one in out["properties"].items()}
        out.setdefault("additionalProperties", False)
    if isinstance(out.get("additionalProperties"), Mapping):
        out["additionalProperties"] = _plain(out["additionalProperties"])
    if not out.get("required", True):
        del out["required"]
    return out


def _kind_of(values: list[object]) -> str | None:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return "string"
    return "integer" if kinds == {int} else None


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    rest = dict(schema)
    if rest.get("default", ...) is None:
        del rest["default"]
    if "anyOf" not in rest:
        return rest
    branches = [one for one in rest.pop("anyOf") if one.get("type") != "null"]
    return {**branches[0], **rest} if len(branches) == 1 else {**rest, "anyOf": branches}
