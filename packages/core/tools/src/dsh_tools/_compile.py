"""JSON schemas to nodes, with every violation of the supported subset."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ._errors import ToolSchemaError
from ._nodes import (
    ArrayNode,
    BooleanNode,
    EveryNode,
    IntegerNode,
    Node,
    NullNode,
    NumberNode,
    ObjectNode,
    StringNode,
    UnionNode,
    pattern_constraint,
)
from ._phrases import compared, path_text, received

if TYPE_CHECKING:
    from ._nodes import Constraint

MAX_SCHEMA_DEPTH: Final = 64

Schema: TypeAlias = Mapping[str, object]

_KINDS: Final[Mapping[str, type[Node]]] = {
    "object": ObjectNode,
    "array": ArrayNode,
    "string": StringNode,
    "number": NumberNode,
    "integer": IntegerNode,
    "boolean": BooleanNode,
    "null": NullNode,
}
_ANNOTATIONS: Final = frozenset({"description", "title", "default", "examples"})
_COMMON: Final = _ANNOTATIONS | {"type", "enum", "const"}
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset(
        {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
    ),
    "array": frozenset({"items", "minItems", "maxItems", "uniqueItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset(
        {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}


def compile_schema(schema: Schema, *, strict: bool, closed: bool) -> Node:
    """The node of `schema`.

    `closed` refuses unknown keys of every object that has properties and does not say otherwise.
    `strict` raises `ToolSchemaError` for what is outside the subset; without it, as for schemas of
    other programs, an unknown keyword leaves its place open. A schema nested deeper than 64 is
    refused either way.
    """
    compiler = _Compiler(strict=strict, closed=closed)
    node = compiler.node(schema, None, 0)
    if compiler.violations:
        raise ToolSchemaError(tuple(compiler.violations))
    return node


class _Compiler:
    def __init__(self, *, strict: bool, closed: bool) -> None:
        self.strict = strict
        self.closed = closed
        self.violations: list[str] = []
        self._open: set[int] = set()

    def complain(self, at: Any, complaint: str) -> None:  # noqa: ANN401 - a path
        if self.strict:
            self._refuse(at, complaint)

    def _refuse(self, at: Any, complaint: str) -> None:  # noqa: ANN401 - a path
        self.violations.append(f"{path_text(at, 'schema')} {complaint}")

    def node(self, schema: object, at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        if isinstance(schema, bool) and not self.strict:
            return Node()
        if not isinstance(schema, Mapping):
            self.complain(at, f"must be an object, got {received(schema)}")
            return Node()
        if id(cast("object", schema)) in self._open:
            self._refuse(at, "contains itself")
            return Node()
        if depth > MAX_SCHEMA_DEPTH:
            self._refuse(at, f"is nested deeper than {MAX_SCHEMA_DEPTH} levels")
            return Node()
        self._open.add(id(cast("object", schema)))
        try:
            return self._described(cast("Schema", schema), at, depth)
        finally:
            self._open.discard(id(cast("object", schema)))

    def _described(self, schema: Schema, at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        kind = schema.get("type")
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return self._union(schema, name, at, depth)
        if "allOf" in schema:
            return self._every(schema, at, depth)
        if isinstance(kind, (list, tuple)) and not self.strict:
            return self._many_kinds(schema, cast("list[object]", kind), at, depth)
        if kind is None:
            for key in schema:
                if key not in _ANNOTATIONS and key not in ("enum", "const"):
                    self.complain(at, f"has {key!r} without a type")
            if not self.strict and ("properties" in schema or "items" in schema):
                guess = "object" if "properties" in schema else "array"
                return self._typed(schema, guess, at, depth)
            return self._listed(Node(), schema, None, at)
        if not isinstance(kind, str) or kind not in _KINDS:
            known = ", ".join(_KINDS)
            self.complain(
                at, f"has the type {received(cast('object', kind))}; one of {known} is supported"
            )
            return Node()
        return self._typed(schema, kind, at, depth)

    def _typed(self, schema: Schema, kind: str, at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        own = _OWN["number" if kind == "integer" else kind]
        for key in schema:
            if key not in _COMMON and key not in own:
                self.complain(at, f"has {key!r}, which is not supported for type {kind!r}")
        node = _KINDS[kind]()
        if isinstance(node, ObjectNode):
            self._fill_object(node, schema, at, depth)
        elif isinstance(node, ArrayNode):
            items = schema.get("items")
            node.items = None if items is None else self.node(items, (at, "items"), depth + 1)
        node.constraints = self._constraints(schema, own, at)
        return self._listed(node, schema, kind, at)

    def _fill_object(self, node: ObjectNode, schema: Schema, at: Any, depth: int) -> None:  # noqa: ANN401 - a path
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            self.complain(at, "has 'properties' that are not an object")
            properties = {}
        declared = cast("Mapping[str, object]", properties)
        node.properties = {
            key: self.node(value, (at, key), depth + 1) for key, value in declared.items()
        }
        required = schema.get("required", ())
        if not isinstance(required, (list, tuple)):
            self.complain(at, "has 'required' that is not an array")
            required = ()
        names = [name for name in cast("list[object]", required) if isinstance(name, str)]
        for name in names:
            if name not in declared:
                self.complain(at, f"requires the undeclared property {name!r}")
        node.required = names
        node.extra = self._extra(schema, at, depth)

    def _extra(self, schema: Schema, at: Any, depth: int) -> Node | None:  # noqa: ANN401 - a path
        extra = schema.get("additionalProperties")
        if extra is None:
            knows = bool(schema.get("properties")) and "patternProperties" not in schema
            return None if self.closed and knows else Node()
        if isinstance(extra, bool):
            return Node() if extra or "patternProperties" in schema else None
        return self.node(extra, (at, "*"), depth + 1)

    def _union(self, schema: Schema, name: str, at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        for key in schema:
            if key != name and key not in _ANNOTATIONS:
                self.complain(at, f"has {key!r} beside {name!r}")
        branches = schema[name]
        if not isinstance(branches, (list, tuple)) or len(cast("list[object]", branches)) < 2:
            self.complain(at, f"has {name!r} with fewer than two alternatives")
            if not isinstance(branches, (list, tuple)) or not branches:
                return Node()
        node = UnionNode()
        node.exactly_one = name == "oneOf"
        # Constraints beside the alternatives are shared, so an object there knows more keys.
        inner = self if self.strict or "properties" not in schema else self._opened()
        alternatives = enumerate(cast("list[object]", branches))
        node.branches = [
            inner.node(one, (at, f"{name}[{number}]"), depth + 1) for number, one in alternatives
        ]
        if inner is not self:
            return self._with_rest(node, schema, name, at, depth)
        return node

    def _every(self, schema: Schema, at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        self.complain(at, "has 'allOf', which is not supported")
        parts = schema["allOf"]
        opened = self._opened()
        node = EveryNode()
        node.parts = (
            [
                opened.node(part, (at, f"allOf[{number}]"), depth + 1)
                for number, part in enumerate(cast("list[object]", parts))
            ]
            if isinstance(parts, (list, tuple))
            else []
        )
        return self._with_rest(node, schema, "allOf", at, depth)

    def _with_rest(self, node: Node, schema: Schema, name: str, at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        """`node` and what stands beside the keyword that it was made of."""
        rest = {key: value for key, value in schema.items() if key != name}
        if not rest.keys() - _ANNOTATIONS:
            return node
        both = EveryNode()
        both.parts = [self._opened().node(rest, at, depth + 1), node]
        return both

    def _opened(self) -> _Compiler:
        """A compiler for parts of one object, each of which knows only some of its keys."""
        opened = _Compiler(strict=self.strict, closed=False)
        opened.violations = self.violations
        opened._open = self._open
        return opened

    def _many_kinds(self, schema: Schema, kinds: list[object], at: Any, depth: int) -> Node:  # noqa: ANN401 - a path
        node = UnionNode()
        node.exactly_one = False
        node.branches = [
            self._typed(schema, kind, at, depth)
            for kind in kinds
            if kind in _KINDS and isinstance(kind, str)
        ]
        return node if node.branches else Node()

    def _listed(self, node: Node, schema: Schema, kind: str | None, at: Any) -> Node:  # noqa: ANN401 - a path
        values: tuple[object, ...] | None = None
        if "enum" in schema:
            listed = schema["enum"]
            if not isinstance(listed, (list, tuple)) or not listed:
                self.complain(at, "has an empty 'enum'")
                return node
            values = tuple(cast("list[object]", listed))
        if "const" in schema:
            const = schema["const"]
            if values is not None and not any(compared(const, one) for one in values):
                self.complain(at, "has a 'const' outside its 'enum'")
            values = (const,)
        for value in values or ():
            if isinstance(value, (Mapping, list, tuple)):
                self.complain(at, "lists a value that is not a scalar")
            elif kind is not None and not node.fits_kind(value):
                self.complain(at, f"lists {received(value)}, which is not of type {kind!r}")
        node.allowed = values
        return node

    def _constraints(self, schema: Schema, own: frozenset[str], at: Any) -> list[Constraint]:  # noqa: ANN401 - a path
        out: list[Constraint] = []
        for key, value in schema.items():
            if key not in own or (make := _BOUNDS.get(key)) is None:
                continue
            try:
                constraint = make(value)
            except (TypeError, ValueError, re.error) as error:
                self.complain(at, f"has an unusable {key!r}: {error}")
                continue
            if constraint is not None:
                out.append(constraint)
        return out


def _number(limit: object) -> int | float:
    if type(limit) is int or type(limit) is float:
        return limit
    raise TypeError(f"expected a number, got {received(limit)}")


def _count(limit: object) -> int:
    if type(limit) is int and limit >= 0:
        return limit
    raise TypeError(f"expected a whole number, got {received(limit)}")


def _bound(words: str, fits: Callable[[Any, Any], bool]) -> Callable[[object], Constraint]:
    def make(limit: object) -> Constraint:
        number = _number(limit)

        def check(value: object) -> str | None:
            if fits(value, number):
                return None
            return f"expected {words} {number}, got {received(value)}"

        return check

    return make


def _size(
    words: str, unit: str, fits: Callable[[int, int], bool]
) -> Callable[[object], Constraint]:
    def make(limit: object) -> Constraint:
        count = _count(limit)
        units = unit if count == 1 else f"{unit}s"

        def check(value: Any) -> str | None:  # noqa: ANN401 - whatever has a length
            if fits(len(value), count):
                return None
            return f"expected {words} {count} {units}, got {len(value)}"

        return check

    return make


def _multiple(step: object) -> Constraint:
    number = _number(step)
    if number <= 0:
        raise ValueError("must be above zero")

    def check(value: Any) -> str | None:  # noqa: ANN401 - a number
        ratio = value / number
        near = abs(ratio - round(ratio)) <= 1e-9 * max(1.0, abs(ratio))
        return None if near else f"expected a multiple of {number}, got {received(value)}"

    return check


def _unique(wanted: object) -> Constraint | None:
    if wanted is not True:
        return None

    def check(value: Any) -> str | None:  # noqa: ANN401 - an array
        for index, item in enumerate(value):
            if any(compared(item, other) for other in value[:index]):
                return f"expected different items, got {received(item)} more than once"
        return None

    return check


def _pattern(pattern: object) -> Constraint:
    if not isinstance(pattern, str):
        raise TypeError(f"expected text, got {received(pattern)}")
    return pattern_constraint(re.compile(pattern))


def _more(one: int, other: int) -> bool:
    return one >= other


def _less(one: int, other: int) -> bool:
    return one <= other


_BOUNDS: Final[Mapping[str, Callable[[object], Constraint | None]]] = {
    "minimum": _bound("at least", lambda value, limit: value >= limit),
    "maximum": _bound("at most", lambda value, limit: value <= limit),
    "exclusiveMinimum": _bound("more than", lambda value, limit: value > limit),
    "exclusiveMaximum": _bound("less than", lambda value, limit: value < limit),
    "multipleOf": _multiple,
    "minLength": _size("at least", "character", _more),
    "maxLength": _size("at most", "character", _less),
    "minItems": _size("at least", "item", _more),
    "maxItems": _size("at most", "item", _less),
    "minProperties": _size("at least", "key", _more),
    "maxProperties": _size("at most", "key", _less),
    "uniqueItems": _unique,
    "pattern": _pattern,
}
