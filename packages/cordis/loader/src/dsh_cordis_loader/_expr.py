"""`!expr`: a closed expression language over published data, with Python's spelling."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from ._errors import LoaderError

if TYPE_CHECKING:
    import ast

MAX_EXPRESSION_LENGTH: Final = 2000
MAX_EXPRESSION_NODES: Final = 200
FUNCTION_NAMES: Final = ("coalesce", "dsh_home", "env.get", "int", "json")

Names: TypeAlias = Mapping[str, object]
Functions: TypeAlias = Mapping[str, Callable[..., object]]
_Step: TypeAlias = Callable[[Names, Functions], object]


@runtime_checkable
class Published(Protocol):
    """An object that answers field reads of expressions, and nothing else."""

    def expression_field(self, name: str, /) -> object: ...


class Expr:
    """The text of one `!expr`, equal by text; compiled on first evaluation.

    A dump or a patch carries it around unevaluated, so reading a file never needs the compiler.
    """

    __slots__ = ("_step", "text")
    text: str

    def __init__(self, text: str) -> None:
        self.text = text
        self._step: _Step | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and other.text == self.text

    def __hash__(self) -> int:
        return hash((Expr, self.text))

    def __repr__(self) -> str:
        return f"Expr({self.text!r})"

    def evaluate(self, names: Names, functions: Functions) -> object:
        """The expression's value as fresh plain data (None, bool, number, text, list, dict).

        Raises LoaderError (`INVALID_EXPRESSION`) saying what is not allowed, which name is
        unknown, or how the evaluation failed; the caller adds row and key.
        """
        if self._step is None:
            self._step = _parse(self.text)
        try:
            return _plain_data(self._step(names, functions))
        except LoaderError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever data and operators do, it is this expression's failure
            raise _refuse(f"{type(error).__name__}: {error}") from None


def _refuse(reason: str) -> LoaderError:
    return LoaderError(reason, code="INVALID_EXPRESSION")


def _plain_data(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain_data(item) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {str(key): _plain_data(item) for key, item in mapping.items()}
    raise _refuse(f"the result is {type(value).__name__}, not data; read one of its fields")


def _parse(text: str) -> _Step:
    # Imported here: a dump never evaluates, and the import costs as much as reading the files.
    import ast

    if len(text) > MAX_EXPRESSION_LENGTH:
        raise _refuse(f"{len(text)} characters; at most {MAX_EXPRESSION_LENGTH} are allowed")
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise _refuse(f"not an expression: {error.msg} at column {error.offset}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _refuse(f"not an expression: {error}") from None
    count = sum(1 for _ in ast.walk(tree))
    if count > MAX_EXPRESSION_NODES:
        raise _refuse(f"{count} parts; at most {MAX_EXPRESSION_NODES} are allowed")
    return _Compiler().compile(tree.body)


class _Compiler:
    """Turns each node of the allowed grammar into a closure; everything else is refused."""

    def compile(self, node: ast.AST) -> _Step:
        kind = type(node).__name__
        handler = getattr(self, f"_compile_{kind.lower()}", None)
        if handler is None:
            raise _refuse(f"{_describe(kind)} is not allowed; {_GRAMMAR}")
        return cast("_Step", handler(node))

    def _compile_constant(self, node: ast.Constant) -> _Step:
        value = node.value
        if value is not None and type(value) not in (bool, int, float, str):
            raise _refuse(f"a {type(value).__name__} literal is not allowed; {_GRAMMAR}")
        return lambda names, functions: value  # noqa: ARG005

    def _compile_name(self, node: ast.Name) -> _Step:
        name = _public(node.id)

        def read(names: Names, functions: Functions) -> object:  # noqa: ARG001
            if name in names:
                return names[name]
            raise _refuse(f"unknown name {name!r}; known: {', '.join(sorted(names))}")

        return read

    def _compile_attribute(self, node: ast.Attribute) -> _Step:
        source, name = self.compile(node.value), _public(node.attr)
        return lambda names, functions: _field(source(names, functions), name)

    def _compile_subscript(self, node: ast.Subscript) -> _Step:
        source, index = self.compile(node.value), getattr(node.slice, "value", None)
        if type(node.slice).__name__ != "Constant" or type(index) not in (str, int):
            raise _refuse("[...] takes a constant text or whole number")
        return lambda names, functions: _item(source(names, functions), index)

    def _compile_boolop(self, node: ast.BoolOp) -> _Step:
        parts = [self.compile(part) for part in node.values]
        stops_when = type(node.op).__name__ == "Or"

        def combine(names: Names, functions: Functions) -> object:
            result: object = None
            for part in parts:
                result = part(names, functions)
                if bool(result) is stops_when:
                    return result
            return result

        return combine

    def _compile_unaryop(self, node: ast.UnaryOp) -> _Step:
        kind = type(node.op).__name__
        if kind == "Not":
            operand = self.compile(node.operand)
            return lambda names, functions: not operand(names, functions)
        value = getattr(node.operand, "value", None)
        if kind == "USub" and type(value) in (int, float):
            negative = -cast("float", value)
            return lambda names, functions: negative  # noqa: ARG005
        raise _refuse(f"{_describe(kind)} is not allowed; {_GRAMMAR}")

    def _compile_binop(self, node: ast.BinOp) -> _Step:
        kind = type(node.op).__name__
        if kind != "Add":
            raise _refuse(f"the operator {kind} is not allowed; {_GRAMMAR}")
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda names, functions: (
            cast("Any", left(names, functions)) + right(names, functions)
        )

    def _compile_compare(self, node: ast.Compare) -> _Step:
        first = self.compile(node.left)
        rest = [
            (_COMPARISONS[type(compare).__name__], self.compile(operand))
            for compare, operand in zip(node.ops, node.comparators, strict=True)
        ]

        def compare_all(names: Names, functions: Functions) -> bool:
            left = first(names, functions)
            for holds, operand in rest:
                right = operand(names, functions)
                if not holds(left, right):
                    return False
                left = right
            return True

        return compare_all

    def _compile_ifexp(self, node: ast.IfExp) -> _Step:
        test, body, orelse = map(self.compile, (node.test, node.body, node.orelse))
        return lambda names, functions: (
            body(names, functions) if test(names, functions) else orelse(names, functions)
        )

    def _compile_list(self, node: ast.List) -> _Step:
        items = [self._list_item(item) for item in node.elts]

        def build(names: Names, functions: Functions) -> list[object]:
            result: list[object] = []
            for spread, item in items:
                value = item(names, functions)
                if not spread:
                    result.append(value)
                elif isinstance(value, (list, tuple)):
                    result.extend(cast("list[object]", value))
                elif value is not None:
                    raise _refuse(f"* needs a list, got {type(value).__name__}")
            return result

        return build

    def _list_item(self, node: ast.expr) -> tuple[bool, _Step]:
        if type(node).__name__ == "Starred":
            return True, self.compile(cast("ast.Starred", node).value)
        return False, self.compile(node)

    def _compile_dict(self, node: ast.Dict) -> _Step:
        entries: list[tuple[str, _Step]] = []
        for key, value in zip(node.keys, node.values, strict=True):
            name = getattr(key, "value", None)
            if not isinstance(name, str):
                raise _refuse("a key of {...} must be a text literal")
            entries.append((name, self.compile(value)))
        return lambda names, functions: {name: value(names, functions) for name, value in entries}

    def _compile_call(self, node: ast.Call) -> _Step:
        name = _called_name(node)
        if name not in FUNCTION_NAMES:
            raise _refuse(f"call of {name}; the functions are {', '.join(FUNCTION_NAMES)}")
        if node.keywords:
            raise _refuse(f"{name}() takes no named arguments")
        arguments = [self.compile(argument) for argument in node.args]
        return lambda names, functions: functions[name](
            *[argument(names, functions) for argument in arguments]
        )


_GRAMMAR: Final = (
    "an expression has literals, names, .field, [constant], and or not, comparisons, in, +, "
    "x if c else y, lists, dicts and the functions " + ", ".join(FUNCTION_NAMES)
)
_COMPARISONS: Final[Mapping[str, Callable[[object, object], object]]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": cast("Callable[[object, object], object]", operator.lt),
    "LtE": cast("Callable[[object, object], object]", operator.le),
    "Gt": cast("Callable[[object, object], object]", operator.gt),
    "GtE": cast("Callable[[object, object], object]", operator.ge),
    "In": lambda item, container: operator.contains(cast("list[object]", container), item),
    "NotIn": lambda item, container: not operator.contains(cast("list[object]", container), item),
    "Is": operator.is_,
    "IsNot": operator.is_not,
}
_DESCRIPTIONS: Final = {
    "JoinedStr": "an f-string",
    "Lambda": "a lambda",
    "ListComp": "a comprehension",
    "DictComp": "a comprehension",
    "SetComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "NamedExpr": "an assignment",
    "Starred": "* outside of a list",
}


def _describe(kind: str) -> str:
    return _DESCRIPTIONS.get(kind, kind)


def _public(name: str) -> str:
    if name.startswith("_"):
        raise _refuse(f"the name {name!r} begins with _")
    return name


def _called_name(node: ast.Call) -> str:
    owner, name = getattr(node.func, "value", None), getattr(node.func, "attr", None)
    if name is not None:
        return f"{getattr(owner, 'id', '(...)')}.{name}"
    return str(getattr(node.func, "id", "(...)"))


def _field(value: object, name: str) -> object:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    if isinstance(value, Published):
        return value.expression_field(name)
    raise _refuse(f"{type(value).__name__} has no field {name!r}")


def _item(value: object, index: object) -> object:
    if isinstance(index, str):
        return _field(value, index)
    if value is None:
        return None
    if isinstance(value, (list, tuple, str)):
        items = cast("list[object]", value)
        position = cast("int", index)
        return items[position] if -len(items) <= position < len(items) else None
    raise _refuse(f"{type(value).__name__} has no item {index!r}")
