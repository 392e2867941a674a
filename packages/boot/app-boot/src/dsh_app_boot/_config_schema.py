"""The JSON Schema of one plugin's configuration, as its rows write it.

The libraries describe what they validate. A row differs in four ways: keys are camelCase whatever
the model calls them, unknown keys are errors, an expression may stand for any value, and what is
secret is only ever written.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

_EXPRESSION: Final = {"$ref": "#/$defs/expression"}
_NESTED: Final = ("items", "additionalProperties")
_CHOICES: Final = ("anyOf", "oneOf", "allOf")
_NOTES: Final = ("title", "description", "default", "deprecated", "examples", "writeOnly")
_NARROWING: Final = ("enum", "const", "pattern", "format", "maxLength", "contentEncoding")


class _Model(msgspec.Struct, frozen=True):
    """A Struct or pydantic model that a configuration holds."""

    title: str
    wires: Mapping[str, str]
    """Key of the validator to key of a file."""
    secrets: frozenset[str]
    """Keys of the validator."""
    is_open: bool
    """Whether it takes keys that it does not know."""


def model_schema(kind: type, *, pointer: str) -> dict[str, Any]:
    """The schema of a Struct or pydantic model that will stand at `pointer` of a document.

    Its values are under `anyOf`, an expression beside them; `required` says whether some key must
    be given. Raises what the libraries raise for a type that has no schema.
    """
    models = {(model.title, frozenset(model.wires)): model for model in _models(kind)}
    schema, definitions = _library_schema(kind, pointer)
    rework = _Rework(models)
    rework.definition(schema)
    for definition in definitions.values():
        rework.definition(definition)
    main = definitions[kind.__name__] if _is_reference_to_self(schema, kind) else schema
    result: dict[str, Any] = {"description": _first_line(kind)}
    if definitions:
        result["$defs"] = definitions
    result["anyOf"] = [schema, _EXPRESSION]
    result["required"] = bool(main.get("required"))
    return result


def _library_schema(kind: type, pointer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if issubclass(kind, msgspec.Struct):
        (schema,), definitions = msgspec.json.schema_components(
            (kind,), schema_hook=_open_type, ref_template=pointer + "/$defs/{name}"
        )
        return schema, definitions
    schema = cast("Any", kind).model_json_schema(ref_template=pointer + "/$defs/{model}")
    return schema, schema.pop("$defs", {})


def _open_type(_kind: type) -> dict[str, Any]:
    """A type of a plugin's own, decoded by its hooks: nothing is known of its file form."""
    return {}


def _is_reference_to_self(schema: Mapping[str, Any], kind: type) -> bool:
    return str(schema.get("$ref", "")).endswith(f"/{kind.__name__}")


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")


class _Rework:
    """From what a library validates to what a file may say."""

    def __init__(self, models: Mapping[tuple[str, frozenset[str]], _Model]) -> None:
        self._models = models

    def definition(self, schema: dict[str, Any]) -> None:
        """Rework a schema in place, but leave its own position as it is."""
        properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
        model = self._model_of(schema, properties)
        for key, value in properties.items():
            if model is not None and key in model.secrets:
                value.pop("default", None)
                value["writeOnly"] = True
            properties[key] = self.value(value)
        if model is not None:
            schema["properties"] = {model.wires.get(k, k): v for k, v in properties.items()}
            if "required" in schema:
                schema["required"] = [model.wires.get(k, k) for k in schema["required"]]
            if not model.is_open:
                schema["additionalProperties"] = False
        for key in _NESTED:
            if isinstance(schema.get(key), dict):
                schema[key] = self.value(schema[key])
        if "prefixItems" in schema:
            schema["prefixItems"] = [self.value(one) for one in schema["prefixItems"]]
        for key in _CHOICES:
            for one in schema.get(key, ()):
                self.definition(one)

    def value(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema reworked, with an expression allowed at its position."""
        self.definition(schema)
        secret = schema.pop("secret", False) or schema.pop("writeOnly", False)
        notes = {key: schema.pop(key) for key in _NOTES if key in schema}
        if secret:
            notes.pop("default", None)
            notes["writeOnly"] = True
        if _takes_any_text(schema):
            return {**notes, **schema}
        if set(schema) == {"anyOf"}:
            return {**notes, "anyOf": [*schema["anyOf"], _EXPRESSION]}
        return {**notes, "anyOf": [schema, _EXPRESSION]}

    def _model_of(self, schema: Mapping[str, Any], properties: Mapping[str, Any]) -> _Model | None:
        title = str(schema.get("title", ""))
        tags = [set[str](), {k for k, v in properties.items() if "enum" in v or "const" in v}]
        for tag in tags:  # a Struct's tag is a property without being a field
            model = self._models.get((title, frozenset(set(properties) - tag)))
            if model is not None:
                return model
        return None


def _takes_any_text(schema: Mapping[str, Any]) -> bool:
    if not schema:
        return True
    return schema.get("type") == "string" and not any(key in schema for key in _NARROWING)


def _models(kind: type) -> Iterator[_Model]:
    """`kind` and every model that its fields can hold."""
    seen: set[int] = set()
    waiting: list[Any] = [kind]
    while waiting:
        found = waiting.pop()
        described = _described(found) if id(found) not in seen else None
        if described is not None:
            seen.add(id(found))
            yield described[0]
            waiting.extend(described[1])
        waiting.extend(typing.get_args(found))


def _described(kind: Any) -> tuple[_Model, list[Any]] | None:  # noqa: ANN401 - a type expression
    # By its face, so that an installation without pydantic never imports it.
    if hasattr(kind, "model_validate"):
        return _pydantic_model(kind)
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return _struct(cast("type[msgspec.Struct]", kind)) if is_struct else None


def _struct(struct: type[msgspec.Struct]) -> tuple[_Model, list[Any]]:
    hints = typing.get_type_hints(struct, include_extras=True)
    pairs = list(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    secrets = frozenset(wire for name, wire in pairs if _is_secret(hints[name]))
    wires = {wire: _camel(wire) for _, wire in pairs}
    return _Model(struct.__name__, wires, secrets, is_open=False), [hints[n] for n, _ in pairs]


def _pydantic_model(model: Any) -> tuple[_Model, list[Any]]:  # noqa: ANN401 - a class of pydantic's
    wires: dict[str, str] = {}
    secrets: set[str] = set()
    for name, info in model.model_fields.items():
        alias = info.validation_alias or info.alias
        wire = alias if isinstance(alias, str) else name
        wires[wire] = _camel(wire)
        if _is_secret(info.annotation) or any(map(_marks_secret, (*info.metadata, info))):
            secrets.add(wire)
    is_open = model.model_config.get("extra") == "allow"
    title = model.model_config.get("title") or model.__name__
    kinds = [info.annotation for info in model.model_fields.values()]
    return _Model(title, wires, frozenset(secrets), is_open=is_open), kinds


def _is_secret(kind: Any) -> bool:  # noqa: ANN401 - a type expression
    if _marks_secret(kind) or getattr(kind, "__name__", "") in ("SecretStr", "SecretBytes"):
        return True
    marks = getattr(kind, "__metadata__", ())
    return any(map(_marks_secret, marks)) or any(map(_is_secret, typing.get_args(kind)))


def _marks_secret(mark: object) -> bool:
    extra = getattr(mark, "extra", None) or getattr(mark, "json_schema_extra", None)
    return isinstance(extra, dict) and bool(cast("dict[str, Any]", extra).get("secret"))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
