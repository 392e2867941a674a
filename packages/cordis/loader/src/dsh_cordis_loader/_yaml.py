"""YAML 1.2 core schema on the C parser: strict, positioned, and ten times faster than pure Python.

PyYAML resolves scalars by YAML 1.1 (`off` is false, `010` is eight); its resolver and constructor
are therefore left out, and the composed nodes are turned into plain values here.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ._errors import LoaderError
from ._expr import Expr

MAX_DEPTH: Final = 100
"""How deep lists and mappings may be nested."""

MAX_REPEATED: Final = 100_000
"""How many values aliases may stand for, all told."""

_PREFIX: Final = "tag:yaml.org,2002:"
_WORDS: Final = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_SPECIAL_FLOATS: Final = {
    f"{sign}.{word}": float(f"{sign}{word}")
    for word in ("inf", "Inf", "INF", "nan", "NaN", "NAN")
    for sign in (("", "-", "+") if word.lower() == "inf" else ("",))
}
_YAML_1_2_ONLY: Final = re.compile(
    r"0o[0-7]+\Z|[-+]?[0-9]+\Z|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"
)
"""Text that PyYAML, which writes by the rules of 1.1, would leave unquoted."""
_FLOAT_CHARACTERS: Final = frozenset("0123456789+-.eE")


def read_yaml(text: str | bytes, *, where: str) -> object:
    """One YAML document as dicts, lists, text, numbers, booleans, None and `Expr`.

    `where` names the source in errors. An empty document is None. Raises LoaderError
    (`INVALID_YAML`) with line and column: syntax, a second document, a duplicate or non-text key,
    a tag other than `!expr`, a node that contains itself, more than 100 levels, aliases that
    stand for more than 100,000 values, bytes that are not UTF-8.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise LoaderError(
                f"{where}: byte {error.start} is not UTF-8; save the file as UTF-8",
                code="INVALID_YAML",
            ) from None
    try:
        node = _Parser(text.removeprefix("\ufeff")).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise LoaderError(f"{where}{position}: {problem}", code="INVALID_YAML") from None
    except yaml.YAMLError as error:
        detail = " ".join(str(error).split())
        raise LoaderError(f"{where}: {detail}", code="INVALID_YAML") from None
    return None if node is None else _Builder(where).build(node)


def write_yaml(value: object) -> str:
    """Plain data and `Expr` as block YAML that `read_yaml` reads back to the same."""
    return yaml.dump(
        value,
        Dumper=_dumper(),
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=2**30,
    )


class _Parser(yaml.CSafeLoader):
    """The C parser with a resolver that leaves open which value plain text means."""

    def resolve(self, kind: type[Node], value: object, implicit: object) -> str:  # noqa: ARG002
        if kind is ScalarNode:
            plain = isinstance(implicit, tuple) and bool(implicit[0])  # pyright: ignore[reportUnknownArgumentType]
            return "?" if plain else _PREFIX + "str"
        return _PREFIX + ("map" if kind is MappingNode else "seq")

    def descend_resolver(self, current_node: object, current_index: object) -> None: ...

    def ascend_resolver(self) -> None: ...


class _Builder:
    """Turns composed nodes into values. One per document, so that aliases share their value."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._done: dict[int, object] = {}
        self._open: set[int] = set()
        self._values = 0
        self._repeated = 0
        self._sizes: dict[int, int] = {}

    def build(self, node: Node) -> object:
        identity = id(node)
        if identity in self._done:
            self._repeat(node, self._sizes[identity])
            return self._done[identity]
        if identity in self._open:
            raise self._refuse(node, "an alias makes this value contain itself")
        if len(self._open) >= MAX_DEPTH:
            raise self._refuse(node, f"nested deeper than {MAX_DEPTH} levels")
        self._open.add(identity)
        before = self._values
        value = self._value(node)
        self._values += 1
        self._sizes[identity] = self._values - before
        self._open.discard(identity)
        self._done[identity] = value
        return value

    def _repeat(self, node: Node, size: int) -> None:
        # A few hundred bytes of aliases of aliases can stand for more than any machine holds.
        self._values += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            raise self._refuse(node, f"aliases stand for more than {MAX_REPEATED:,} values")

    def _value(self, node: Node) -> object:
        tag = node.tag
        if isinstance(node, ScalarNode):
            return self._scalar(node, tag)
        if isinstance(node, SequenceNode) and tag == _PREFIX + "seq":
            return [self.build(item) for item in node.value]
        if isinstance(node, MappingNode) and tag == _PREFIX + "map":
            return self._mapping(node)
        if tag == "!expr":
            raise self._refuse(node, "!expr takes one text, not a list or a mapping")
        raise self._refuse(node, f"unknown tag {_short(tag)!r}; the only tag is !expr")

    def _mapping(self, node: MappingNode) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self.build(key_node)
            if not isinstance(key, str):
                raise self._refuse(key_node, f"key {key!r} must be text; quote it")
            if key in result:
                raise self._refuse(key_node, f"duplicate key {key!r}")
            result[key] = self.build(value_node)
        return result

    def _scalar(self, node: ScalarNode, tag: str) -> object:
        text = node.value
        if tag == "?":
            return self._plain(node, text)
        if tag == _PREFIX + "str":
            return text
        if tag == "!expr":
            if not text.strip():
                raise self._refuse(node, "!expr needs an expression")
            return Expr(text.strip())
        kinds = {"null": type(None), "bool": bool, "int": int, "float": float}
        kind = kinds.get(tag.removeprefix(_PREFIX))
        if kind is None:
            raise self._refuse(node, f"unknown tag {_short(tag)!r}; the only tag is !expr")
        value = self._plain(node, text)
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise self._refuse(node, f"{text!r} is no {_short(tag)}")
        return value

    def _plain(self, node: ScalarNode, text: str) -> object:
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in "-+.0123456789":
            return text
        try:
            return _number(text)
        except ValueError:
            raise self._refuse(node, f"a number of {len(text)} digits is too long") from None

    def _refuse(self, node: Node, problem: str) -> LoaderError:
        mark = node.start_mark
        return LoaderError(
            f"{self._where}:{mark.line + 1}:{mark.column + 1}: {problem}", code="INVALID_YAML"
        )


def _number(text: str) -> int | float | str:
    """The core schema's number, or the text itself. Raises ValueError for absurdly long ones."""
    if not text.isascii():
        return text
    digits = text[1:] if text[0] in "-+" else text
    if digits.isdigit():
        return int(text)
    if text.startswith("0o") and text[2:] and not set(text[2:]) - set("01234567"):
        return int(text[2:], 8)
    if text.startswith("0x") and text[2:].isalnum():
        try:
            return int(text[2:], 16)
        except ValueError:
            return text
    if text in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[text]
    if _FLOAT_CHARACTERS.issuperset(text):
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _dumper() -> type[yaml.CSafeDumper]:
    class Dumper(yaml.CSafeDumper):
        """Quotes what YAML 1.1 or 1.2 would read as something else than text; writes no aliases."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - the library's signature
            return True

    def expression(dumper: Any, value: Expr) -> yaml.ScalarNode:  # noqa: ANN401 - the library's signature
        return dumper.represent_scalar("!expr", value.text, style='"')

    def text(dumper: Any, value: str) -> yaml.ScalarNode:  # noqa: ANN401 - the library's signature
        style = "'" if _YAML_1_2_ONLY.match(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(Expr, expression)
    Dumper.add_representer(str, text)
    return Dumper


def _short(tag: str) -> str:
    return tag.replace(_PREFIX, "!!")
