"""Validation of a plugin's configuration against its msgspec Struct or pydantic model."""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar, Union, cast

import msgspec

from ._errors import ConfigError

T = TypeVar("T")


class NoConfig(msgspec.Struct, frozen=True):
    """`Config` of a plugin that takes none: any key is refused by name."""


_MIN_SECRET = 4
"""Shorter secrets are not searched for in messages: replacing them would garble the text."""


def validate_config(kind: type[T], raw: object, *, where: str) -> T:
    """`raw` as a `kind`; `where` names the plugin in errors.

    Keys may be camelCase or snake_case at every level; None means no keys; an instance of `kind`
    is returned as it is. Raises ConfigError with the path, what was expected and, for an unknown
    key, the nearest known one; never with the value of a field marked as secret.
    """
    if isinstance(raw, kind):
        return raw
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        raise ConfigError(
            f"invalid config of {where}: expected a mapping, got {type(raw).__name__}"
        )
    walk = _Walk(where)
    try:
        plain = walk.model(kind, cast("Mapping[Any, Any]", raw), ())
        if _is_struct(kind):
            return msgspec.convert(plain, kind)
        return cast("Any", kind).model_validate(plain)
    except ConfigError:
        raise
    except (ValueError, msgspec.ValidationError) as error:
        # The original names values; the chain is cut so that no traceback shows a secret.
        raise ConfigError(walk.describe(error)) from None


class _Field(msgspec.Struct, frozen=True):
    wire: str
    """The key that the validator wants."""
    name: str
    kind: Any
    secret: bool


class _Walk:
    """One pass over raw data: keys into the validator's spelling, secrets remembered."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._secrets: list[str] = []
        self._secret_paths: set[tuple[str, ...]] = set()

    def model(self, kind: type, raw: Mapping[Any, Any], path: tuple[str, ...]) -> dict[str, Any]:
        known: dict[str, _Field] = {}
        for field in _fields(kind):
            for spelling in (field.wire, field.name, _camel(field.name)):
                known.setdefault(spelling, field)
        plain: dict[str, Any] = {}
        for key, value in raw.items():
            field = known.get(key)
            if field is None:
                if key == _tag_field(kind) or _allows_extra(kind):
                    plain[key] = value
                    continue
                raise ConfigError(self._unknown(str(key), known.values(), path))
            here = (*path, _camel(field.wire))
            if field.wire in plain:
                raise ConfigError(
                    f"invalid config of {self._where}: {'.'.join(here)} is given twice"
                )
            if field.secret:
                self._secret_paths.add(_spelled(here))
                self._remember(value)
            plain[field.wire] = self.value(field.kind, value, here)
        return plain

    def value(self, kind: Any, raw: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - data of any shape
        """`raw` with the keys of the models that `kind` holds respelled."""
        if not isinstance(raw, (Mapping, list, tuple)):
            return raw
        for option in _options(kind):
            origin = typing.get_origin(option)
            inner = typing.get_args(option)
            if not isinstance(raw, Mapping):
                if inner and _is_class(origin, Iterable) and not _is_class(origin, Mapping):
                    kinds = itertools.chain(inner, itertools.repeat(inner[-1]))
                    if inner[-1] is ... or len(inner) == 1:
                        kinds = itertools.repeat(inner[0])
                    items = zip(kinds, cast("list[Any]", raw), strict=False)
                    return [self.value(k, v, (*path, str(i))) for i, (k, v) in enumerate(items)]
            elif _is_model(option) and _tag_fits(option, cast("Mapping[Any, Any]", raw)):
                return self.model(option, cast("Mapping[Any, Any]", raw), path)
            elif _is_class(origin, Mapping) and len(inner) == 2:
                pairs = cast("Mapping[Any, Any]", raw).items()
                return {k: self.value(inner[1], v, (*path, str(k))) for k, v in pairs}
        return cast("Any", raw)

    def describe(self, error: Exception) -> str:
        """The validator's message, with our path spelling and without secrets."""
        details = getattr(error, "errors", None)
        if callable(details):
            first = cast("list[dict[str, Any]]", details(include_url=False, include_input=False))[0]
            path = tuple(str(part) for part in first["loc"])
            text = str(first["msg"])
        else:
            text, _, place = str(error).partition(" - at `$")
            path = tuple(
                p for p in place.rstrip("`").replace("[", ".").replace("]", "").split(".") if p
            )
        if any(_spelled(path)[: len(secret)] == secret for secret in self._secret_paths):
            text = "invalid value (not shown, it is a secret)"
        for secret in self._secrets:
            text = text.replace(secret, "***")
        at = f" (at {'.'.join(path)})" if path else ""
        return f"invalid config of {self._where}: {text}{at}"

    def _remember(self, value: object) -> None:
        if isinstance(value, str) and len(value) >= _MIN_SECRET:
            self._secrets.append(value)

    def _unknown(self, key: str, fields: Iterable[_Field], path: tuple[str, ...]) -> str:
        import difflib  # only a failing boot needs it

        # What a file should say: the declared name where there is one (`baseURL`), else camelCase.
        names = sorted({_camel(field.wire) for field in fields})
        near = difflib.get_close_matches(_camel(key), names, n=1, cutoff=0.0)
        hint = f', did you mean "{near[0]}"?' if near else ": it takes no configuration"
        place = ".".join((*path, key))
        return f'invalid config of {self._where}: unknown key "{place}"{hint}'


def _fields(kind: type) -> list[_Field]:
    if _is_struct(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        struct = cast("type[msgspec.Struct]", kind)
        names = struct.__struct_fields__
        wires = struct.__struct_encode_fields__
        return [
            _Field(wire, name, hints[name], _is_secret(hints[name]))
            for name, wire in zip(names, wires, strict=True)
        ]
    found: list[_Field] = []
    for name, info in cast("Any", kind).model_fields.items():
        alias = info.validation_alias or info.alias
        wire = alias if isinstance(alias, str) else name
        marks: tuple[Any, ...] = (*info.metadata, info)
        secret = any(_marks_secret(mark) for mark in marks) or _is_secret(info.annotation)
        found.append(_Field(wire, name, info.annotation, secret))
    return found


def _marks_secret(mark: object) -> bool:
    extra = getattr(mark, "extra", None) or getattr(mark, "json_schema_extra", None)
    return isinstance(extra, dict) and bool(cast("dict[str, Any]", extra).get("secret"))


def _is_secret(kind: Any) -> bool:  # noqa: ANN401 - a type expression
    if typing.get_origin(kind) is Annotated:
        inner, *marks = typing.get_args(kind)
        return any(_marks_secret(mark) for mark in marks) or _is_secret(inner)
    if typing.get_origin(kind) in (Union, types.UnionType):
        return any(_is_secret(arm) for arm in typing.get_args(kind))
    return getattr(kind, "__name__", "") in ("SecretStr", "SecretBytes")


def _options(kind: Any) -> list[Any]:  # noqa: ANN401 - a type expression
    """The arms of a union, annotations stripped."""
    while typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (Union, types.UnionType):
        return [option for arm in typing.get_args(kind) for option in _options(arm)]
    return [kind]


def _is_struct(kind: Any) -> bool:  # noqa: ANN401 - a type expression
    return _is_class(kind, msgspec.Struct)


def _is_model(kind: Any) -> bool:  # noqa: ANN401 - a type expression
    # By its face, so that trees without pydantic never import it.
    return _is_struct(kind) or (isinstance(kind, type) and hasattr(kind, "model_validate"))


def _is_class(kind: Any, base: type) -> bool:  # noqa: ANN401 - a type expression
    return isinstance(kind, type) and issubclass(kind, base)


def _allows_extra(kind: type) -> bool:
    return getattr(kind, "model_config", {}).get("extra") == "allow"


def _tag_field(kind: type) -> str | None:
    return cast("Any", kind).__struct_config__.tag_field if _is_struct(kind) else None


def _tag_fits(kind: type, raw: Mapping[Any, Any]) -> bool:
    field = _tag_field(kind)
    return field is None or raw.get(field) == cast("Any", kind).__struct_config__.tag


def _spelled(path: tuple[str, ...]) -> tuple[str, ...]:
    """`path` for comparison: validators name their own spelling, we name a file's."""
    return tuple(map(_camel, path))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
