"""A compiled JSON schema: it reads data, converts what loses nothing, and names what does not fit.

Nodes recurse only as deep as their schema, which the compiler bounds, so that data of any depth is
safe. What a schema leaves open is passed on as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ._numbers import integral, parsed_json, parsed_number
from ._phrases import Path, compared, path_text, received, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Constraint: TypeAlias = "Callable[[Any], str | None]"
    """None, or what was wanted instead, with what came."""

BAD: Final = object()
"""What `Node.read` gives for a value that it has reported."""


class Walk:
    """One reading: whether to convert, and what has been found wrong."""

    __slots__ = ("convert", "root", "violations")

    def __init__(self, *, convert: bool, root: str) -> None:
        self.convert = convert
        self.root = root
        """What the whole is called."""
        self.violations: list[str] = []

    def mismatch(self, at: Path, wanted: str, value: object) -> object:
        """Report that `value` is not `wanted`."""
        self.violations.append(
            f"{path_text(at, self.root)}: expected {wanted}, got {received(value)}"
        )
        return BAD

    def refuse(self, at: Path, complaint: str) -> object:
        """Report `complaint`, which names wanted and received itself."""
        self.violations.append(f"{path_text(at, self.root)}: {complaint}")
        return BAD


class Node:
    """Accepts any value; the base of the others."""

    __slots__ = ("allowed", "constraints")
    wanted: str = "any value"

    def __init__(self) -> None:
        self.constraints: Sequence[Constraint] = ()
        self.allowed: tuple[object, ...] | None = None
        """The only values, if they are listed."""

    def read(self, value: object, at: Path, walk: Walk) -> object:
        """`value`, converted where that loses nothing, or `BAD` with a violation in `walk`."""
        taken = self.take(value, at, walk)
        if taken is BAD:
            return BAD
        if self.allowed is not None and not any(compared(taken, one) for one in self.allowed):
            return walk.mismatch(at, self.listed(), value)
        for constraint in self.constraints:
            if (complaint := constraint(taken)) is not None:
                return walk.refuse(at, complaint)
        return taken

    def take(self, value: object, at: Path, walk: Walk) -> object:  # noqa: ARG002 - subclasses need all
        """`read` without lists and bounds."""
        return value

    def listed(self) -> str:
        """The listed values in words."""
        values = [shown(one) for one in self.allowed or ()]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"

    def phrase(self) -> str:
        """What is wanted, in words."""
        return self.wanted if self.allowed is None else self.listed()

    def fits_kind(self, value: object) -> bool:  # noqa: ARG002 - subclasses need it
        """Whether `value` is of the node's own JSON type."""
        return True


class StringNode(Node):
    """Text."""

    __slots__ = ()
    wanted = "a string"

    def take(self, value: object, at: Path, walk: Walk) -> object:
        return value if type(value) is str else walk.mismatch(at, self.phrase(), value)

    def fits_kind(self, value: object) -> bool:
        return type(value) is str


class NumberNode(Node):
    """A number; text that is one exactly is converted."""

    __slots__ = ()
    wanted = "a number"

    def take(self, value: object, at: Path, walk: Walk) -> object:
        kind = type(value)
        if kind is int or kind is float:
            return value
        if kind is str and walk.convert:
            number = parsed_number(cast("str", value))
            if number is not None:
                return number
        return walk.mismatch(at, self.phrase(), value)

    def fits_kind(self, value: object) -> bool:
        return type(value) in (int, float)


class IntegerNode(Node):
    """A whole number; `5.0` is one, and so is text that is one exactly."""

    __slots__ = ()
    wanted = "an integer"

    def take(self, value: object, at: Path, walk: Walk) -> object:
        kind = type(value)
        if kind is int:
            return value
        number = value
        if kind is str and walk.convert:
            number = parsed_number(cast("str", value))
        whole = integral(number)
        return walk.mismatch(at, self.phrase(), value) if whole is None else whole

    def fits_kind(self, value: object) -> bool:
        return integral(value) is not None


class BooleanNode(Node):
    """True or false."""

    __slots__ = ()
    wanted = "a boolean (true or false, not in quotes)"

    def take(self, value: object, at: Path, walk: Walk) -> object:
        return value if type(value) is bool else walk.mismatch(at, self.phrase(), value)

    def fits_kind(self, value: object) -> bool:
        return type(value) is bool


class NullNode(Node):
    """Null."""

    __slots__ = ()
    wanted = "null"

    def take(self, value: object, at: Path, walk: Walk) -> object:
        return value if value is None else walk.mismatch(at, self.phrase(), value)

    def fits_kind(self, value: object) -> bool:
        return value is None


class ArrayNode(Node):
    """A list; text that is a JSON array is converted."""

    __slots__ = ("items",)
    wanted = "an array"
    items: Node | None
    """None leaves the items open."""

    def take(self, value: object, at: Path, walk: Walk) -> object:
        array = value
        if type(value) is str and walk.convert:
            array = parsed_json(value)
        if not isinstance(array, (list, tuple)):
            return walk.mismatch(at, self.wanted, value)
        entries = cast("Sequence[object]", array)
        if (node := self.items) is None:
            return list(entries)
        out = [node.read(item, (at, index), walk) for index, item in enumerate(entries)]
        return BAD if any(item is BAD for item in out) else out

    def fits_kind(self, value: object) -> bool:
        return isinstance(value, (list, tuple))


class ObjectNode(Node):
    """An object; text that is a JSON object is converted. Unknown keys are refused by name."""

    __slots__ = ("extra", "properties", "required")
    wanted = "an object"
    properties: Mapping[str, Node]
    required: Sequence[str]
    extra: Node | None
    """For keys without a property; None refuses them."""

    def take(self, value: object, at: Path, walk: Walk) -> object:
        data = value
        if type(value) is str and walk.convert:
            data = parsed_json(value)
        if not isinstance(data, dict):
            return walk.mismatch(at, self.wanted, value)
        fields = cast("dict[str, object]", data)
        out: dict[str, object] = {}
        good = True
        for key, item in fields.items():
            node = self.properties.get(key) or self.extra
            if node is None:
                known = ", ".join(self.properties) or "none"
                walk.refuse((at, str(key)), f"unknown key {key!r}, known keys: {known}")
                good = False
                continue
            taken = out[key] = node.read(item, (at, key), walk)
            good = good and taken is not BAD
        for key in self.required:
            if key not in fields:
                wanted = self.properties[key].phrase() if key in self.properties else "a value"
                walk.refuse((at, key), f"required but missing, expected {wanted}")
                good = False
        return out if good else BAD

    def fits_kind(self, value: object) -> bool:
        return isinstance(value, dict)


class UnionNode(Node):
    """Alternatives. One that fits as it is goes before one that fits after conversion."""

    __slots__ = ("branches", "exactly_one")
    branches: Sequence[Node]
    exactly_one: bool

    def take(self, value: object, at: Path, walk: Walk) -> object:
        for convert in (False, True) if walk.convert else (False,):
            hits = self._hits(value, at, convert=convert)
            if len(hits) > 1 and self.exactly_one:
                count = len(hits)
                return walk.refuse(at, f"fits {count} alternatives, must fit exactly one")
            if hits:
                return hits[0]
        return self._complain(value, at, walk)

    def _hits(self, value: object, at: Path, *, convert: bool) -> list[object]:
        hits: list[object] = []
        for branch in self.branches:
            taken = branch.read(value, at, Walk(convert=convert, root=""))
            if taken is BAD:
                continue
            hits.append(taken)
            if not self.exactly_one:
                break
        return hits

    def _complain(self, value: object, at: Path, walk: Walk) -> object:
        """What helps most: the complaints of the one branch that was meant, or all the choices."""
        others = [branch for branch in self.branches if type(branch) is not NullNode]
        if len(others) == 1 and value is not None:
            return others[0].read(value, at, walk)
        same = [branch for branch in others if branch.fits_kind(value)]
        if len(same) == 1:
            return same[0].read(value, at, walk)
        tags = _tags(same)
        if not tags or not isinstance(value, dict):
            return walk.mismatch(at, self.phrase(), cast("object", value))
        fields = cast("dict[str, object]", value)
        name = next(iter(tags))
        for tag, branch in tags[name]:
            if compared(fields.get(name, BAD), tag):
                return branch.read(fields, at, walk)
        wanted = " or ".join(shown(tag) for tag, _ in tags[name])
        if name not in fields:
            return walk.refuse((at, name), f"required but missing, expected {wanted}")
        return walk.mismatch((at, name), wanted, fields[name])

    def phrase(self) -> str:
        return " or ".join(dict.fromkeys(branch.phrase() for branch in self.branches))

    def fits_kind(self, value: object) -> bool:
        return any(branch.fits_kind(value) for branch in self.branches)


class EveryNode(Node):
    """All parts apply, one after the other."""

    __slots__ = ("parts",)
    parts: Sequence[Node]

    def take(self, value: object, at: Path, walk: Walk) -> object:
        for part in self.parts:
            if (value := part.read(value, at, walk)) is BAD:
                return BAD
        return value

    def phrase(self) -> str:
        return " and ".join(dict.fromkeys(part.phrase() for part in self.parts))

    def fits_kind(self, value: object) -> bool:
        return all(part.fits_kind(value) for part in self.parts)


def _tags(branches: Sequence[Node]) -> dict[str, list[tuple[object, Node]]]:
    """Properties that tell all `branches` apart, each with the value and branch of every one."""
    tags: dict[str, list[tuple[object, Node]]] = {}
    for branch in branches:
        if not isinstance(branch, ObjectNode):
            return {}
        for key, node in branch.properties.items():
            if node.allowed is not None and len(node.allowed) == 1:
                tags.setdefault(key, []).append((node.allowed[0], branch))
    return {key: known for key, known in tags.items() if len(known) == len(branches)}


def pattern_constraint(pattern: re.Pattern[str]) -> Constraint:
    """Text that `pattern` is found in."""

    def check(value: object) -> str | None:
        if type(value) is not str or pattern.search(value):
            return None
        return f"expected a string that matches {pattern.pattern!r}, got {received(value)}"

    return check
