"""Typed values to JSON and back: what a tool takes and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from dsh_lossless_json import (
    FrozenDict,
    FrozenJson,
    LosslessJsonError,
    Opaque,
    convert,
    encode,
    freeze,
    repaired,
)

from ._compile import compile_schema
from ._derive import derive_schema, inlined, is_pydantic_model, offered_schema
from ._errors import ToolArgsError, ToolOutputError, ToolSchemaError
from ._nodes import BAD, Walk
from ._numbers import strict_json
from ._phrases import cut


class Arguments:
    """The parameters of a tool: the schema that a model sees, and the way to a typed value.

    `params` is a Struct, a dataclass or a pydantic model, all of whose keys are known, or a JSON
    schema, for which the typed value is the frozen object itself. Raises `ToolSchemaError`.
    """

    __slots__ = ("_kind", "_node", "schema")
    schema: FrozenDict

    def __init__(self, params: object) -> None:
        self._kind: object | None = None
        if isinstance(params, Mapping):
            offered: Mapping[str, Any] = cast("Mapping[str, Any]", params)
            self._node = compile_schema(inlined(offered), strict=False, closed=True)
        else:
            self._kind = params
            accepted = derive_schema(params, "validation")
            self._node = compile_schema(accepted, strict=True, closed=True)
            offered = offered_schema(accepted)
        if offered.get("type") != "object":
            raise ToolSchemaError(("parameters must be an object with named properties",))
        try:
            self.schema = FrozenDict(offered)
        except LosslessJsonError as error:
            raise ToolSchemaError((str(error),)) from error

    def read(self, arguments: object) -> FrozenDict:
        """`arguments`, converted where that loses nothing, frozen. Raises `ToolArgsError`."""
        if type(arguments) is str:
            arguments = _parsed(arguments)
        walk = Walk(convert=True, root="arguments")
        taken = self._node.read(arguments, None, walk)
        if taken is BAD:
            raise ToolArgsError(tuple(walk.violations))
        return frozen_arguments(taken)

    def build(self, arguments: FrozenDict) -> Any:  # noqa: ANN401 - the tool's own type
        """The typed value of what `read` gave. Raises `ToolArgsError` for the type's own rules."""
        return _built(arguments, self._kind, ToolArgsError)


class Output:
    """What a tool returns: a type whose values are checked and can be built again, or a schema.

    `kind` may be any type that msgspec or pydantic describes, `object` for any JSON value, or a
    JSON schema of the supported subset. Raises `ToolSchemaError`.
    """

    __slots__ = ("_kind", "_node", "schema")
    schema: FrozenDict

    def __init__(self, kind: object) -> None:
        self._kind: object | None = None
        if isinstance(kind, Mapping):
            schema: Mapping[str, Any] = cast("Mapping[str, Any]", kind)
        elif kind is object or kind is Any:
            schema = {}
        else:
            self._kind = kind
            schema = derive_schema(kind, "serialization")
        self._node = compile_schema(schema, strict=True, closed=False)
        self.schema = FrozenDict(schema)

    def read(self, value: object) -> FrozenJson:
        """`value` as frozen JSON that fits the schema as it is. Raises `ToolOutputError`.

        NUL and lone surrogates become replacement characters: they come with the bytes that tools
        meet and are no mistake of the tool.
        """
        # Where no type says what a set or bytes should become, they are refused, not guessed at.
        bare = self._kind is None and type(value) in (dict, list, tuple)
        plain = value if bare else _plain_json(value)
        try:
            frozen = freeze(plain)
        except LosslessJsonError:
            try:
                frozen = freeze(repaired(plain))
            except LosslessJsonError as error:
                raise ToolOutputError((str(error),)) from error
        walk = Walk(convert=False, root="value")
        if self._node.read(frozen, None, walk) is BAD:
            raise ToolOutputError(tuple(walk.violations))
        return frozen

    def build(self, value: FrozenJson) -> Any:  # noqa: ANN401 - the tool's own type
        """The typed value of what `read` gave. Raises `ToolOutputError` for its type's rules."""
        return _built(value, self._kind, ToolOutputError)


def frozen_arguments(arguments: object) -> Any:  # noqa: ANN401 - any JSON
    """A frozen copy. Raises `ToolArgsError` for what JSON cannot carry unchanged."""
    try:
        return freeze(arguments, what="arguments")
    except LosslessJsonError as error:
        raise ToolArgsError((str(error),)) from error


def _parsed(text: str) -> object:
    """Arguments that came as text: JSON in JSON, or what did not parse in the first place."""
    try:
        return strict_json(text)
    except ValueError as error:
        reason = str(error).replace(": line 1 column", " at character").partition(" (char")[0]
        start = f"they start with {cut(text)!r}" if text else "they are empty"
        raise ToolArgsError((f"arguments are not valid JSON ({reason}); {start}",)) from None


def _built(value: Any, kind: Any, failure: Any) -> Any:  # noqa: ANN401 - any type
    if kind is None:
        return value
    try:
        return _converted(value, kind)
    except (msgspec.ValidationError, LosslessJsonError) as error:
        reason, _, path = str(error).partition(" - at `$")
        place = path.rstrip("`").removeprefix(".") or "arguments"
        raise failure((f"{place}: {reason}",)) from error


def _converted(value: Any, kind: Any) -> Any:  # noqa: ANN401 - any type
    if is_pydantic_model(kind):
        return _model(value, kind)
    return msgspec.convert(value, kind, dec_hook=_decode_hook)


def _model(value: Any, kind: Any) -> Any:  # noqa: ANN401 - any pydantic model
    # Strict, from JSON: dates and enums are read from their text, and True never becomes 1.
    try:
        return kind.model_validate_json(encode(value), strict=True)
    except ValueError as error:
        if not callable(listed := getattr(error, "errors", None)):
            raise
        raise msgspec.ValidationError(_model_errors(cast("Any", listed()))) from error


def _model_errors(listed: list[dict[str, Any]]) -> str:
    parts: list[str] = []
    for one in listed:
        place = ".".join(map(str, one["loc"]))
        parts.append(f"{place}: {one['msg']}" if place else str(one["msg"]))
    return "; ".join(parts)


def _decode_hook(kind: Any, value: Any) -> Any:  # noqa: ANN401 - msgspec's hook signature
    if is_pydantic_model(kind):
        return _model(value, kind)
    return convert(value, kind)


def _plain_json(value: object) -> Any:  # noqa: ANN401 - any JSON
    """`value` as what `freeze` takes: Structs, models, enums and dates in their JSON form."""
    kind = type(value)
    if value is None or kind in (str, bool, int, float, FrozenDict):
        return value
    if is_pydantic_model(kind):
        return cast("Any", value).model_dump(mode="json")
    try:
        return msgspec.to_builtins(value, enc_hook=_encode_hook, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolOutputError((f"{kind.__name__} is not a JSON value: {error}",)) from error


def _encode_hook(value: Any) -> Any:  # noqa: ANN401 - msgspec's hook signature
    if isinstance(value, Opaque):
        return value.json
    if is_pydantic_model(cast("Any", type(value))):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")
