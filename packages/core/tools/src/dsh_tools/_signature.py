"""What a function says about itself: parameters as a Struct, and its return type."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from ._errors import ToolError
from ._execution import ToolExecution


class Signature(msgspec.Struct, frozen=True):
    """A typed asynchronous function, as a tool sees it."""

    params: type[msgspec.Struct]
    """One field for each parameter that the model fills."""
    execution: str | None
    """The parameter that gets the `ToolExecution`."""
    returns: object


def read_signature(function: Callable[..., Any]) -> Signature:
    """Raises `ToolError` `INVALID_DEFINITION` for what cannot be called by name with JSON."""
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise _invalid(name, "must be an async function")
    hints = _hints(function, name)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    execution: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _invalid(name, f"cannot have the parameter {str(parameter)!r}")
        if parameter.name not in hints:
            raise _invalid(name, f"needs an annotation for the parameter {parameter.name!r}")
        kind = hints[parameter.name]
        if kind is ToolExecution:
            execution = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    params = msgspec.defstruct(name, fields, kw_only=True, frozen=True)
    return Signature(params, execution, hints.get("return", object))


def return_type(function: Callable[..., Any]) -> object:
    """The return annotation of a tool's body; `object` where there is none."""
    inner = getattr(function, "__func__", function)
    inner = inner if hasattr(inner, "__annotations__") else getattr(inner, "__call__", inner)  # noqa: B004 - an object that is called
    annotations = getattr(inner, "__annotations__", {})
    if "return" not in annotations:
        return object
    # Only this one: the others may name types that are imported for checking alone.
    alone = types.SimpleNamespace(__annotations__={"return": annotations["return"]})
    name = getattr(function, "__qualname__", repr(function))
    return _hints(alone, name, getattr(inner, "__globals__", {}))["return"]


def _hints(
    function: Any,  # noqa: ANN401 - whatever is annotated
    name: str,
    namespace: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    known = function.__globals__ if namespace is None else namespace
    try:
        return typing.get_type_hints(
            function, {"ToolExecution": ToolExecution, **known}, include_extras=True
        )
    except NameError as error:
        reason = (
            f"has an annotation that cannot be read ({error}); import or define it in its module"
        )
        raise _invalid(name, reason) from error


def _default(value: object) -> Any:  # noqa: ANN401 - a msgspec default
    # Structs refuse to share a mutable default, so each call gets its own copy.
    if isinstance(value, (list, dict, set, bytearray)):
        return msgspec.field(default_factory=cast("Any", value).copy)
    return value


def _invalid(name: str, complaint: str) -> ToolError:
    return ToolError(f"tool function {name!r} {complaint}", code="INVALID_DEFINITION")
