"""Frozen JSON values and the strict walk that builds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from ._errors import LosslessJsonError
from ._text import unsafe_text

MAX_DEPTH: Final = 128
"""Containers inside containers, counted from the root; deeper values are refused."""

_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1
_MAX_SHOWN: Final = 200


class FrozenDict(dict[str, Any]):
    """A JSON object that cannot change: every mutating method raises `TypeError`.

    A `dict` subclass, so that msgspec and the standard json encode it as it is. Building one from
    a mapping freezes it as `freeze` does, with the same errors, so that an instance is always
    frozen all the way down.
    """

    __slots__ = ()

    def __new__(cls, value: Mapping[str, object] | None = None) -> FrozenDict:
        try:
            return _freeze_object(dict(value or {}), 0)
        except _RefusedError as refused:
            raise refused.error("value") from None

    def __init__(self, value: Mapping[str, object] | None = None) -> None:
        # Filled by __new__: calling __init__ again must not change the value.
        pass

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("this JSON object is frozen; build a new one with thaw()")

    __setitem__ = __delitem__ = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


_CONTAINERS: Final = (dict, FrozenDict, list, tuple)


def _is_frozen(value: object) -> bool:
    kind = type(value)
    return value is None or kind in (bool, int, float, str, tuple, FrozenDict)


if TYPE_CHECKING:
    FrozenJson: TypeAlias = bool | int | float | str | tuple["FrozenJson", ...] | FrozenDict | None
else:

    class _FrozenJsonMeta(type):
        def __instancecheck__(cls, value: object) -> bool:
            return _is_frozen(value)

    class FrozenJson(metaclass=_FrozenJsonMeta):
        """Annotation for any frozen JSON value; a field of it decodes through `freeze`."""


def freeze(value: object, *, what: str = "value") -> Any:  # noqa: ANN401 - any JSON root
    """An immutable copy of `value`: dicts become `FrozenDict`, lists and tuples become tuples.

    Accepts exactly None, bool, int (64 bit), finite float other than -0.0, str without NUL and
    lone surrogates, list, tuple, dict with str keys and `FrozenDict`, at most `MAX_DEPTH` deep.
    Raises `LosslessJsonError` naming `what` and the path of the first offender.
    """
    if type(value) is FrozenDict:
        return value
    try:
        return _freeze(value, 0)
    except _RefusedError as refused:
        raise refused.error(what) from None


def thaw(value: FrozenJson) -> Any:  # noqa: ANN401 - any JSON root
    """A mutable deep copy made of plain dicts and lists."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


class _RefusedError(Exception):
    """Collects the path while the walk unwinds, so that good values pay nothing for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def error(self, what: str) -> LosslessJsonError:
        path = "".join(reversed(self.path))
        return LosslessJsonError(f"{what}{_shortened(path)} {self.reason}")


def _shortened(text: str) -> str:
    # A cycle's path has MAX_DEPTH parts and a key may be as long as a file.
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _freeze(value: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON
    # Recursion is bounded by MAX_DEPTH, which also ends cycles.
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        if (bad := unsafe_text(value)) is not None:
            raise _RefusedError(f"holds the character {bad!r}, which strict JSON refuses")
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        if not _MIN_INT <= value <= _MAX_INT:
            raise _RefusedError("is an integer of more than 64 bits; write it as text")
        return value
    if kind is float:
        if value - value != 0.0 or (value == 0.0 and str(value) == "-0.0"):
            raise _RefusedError(f"is {value!r}, which does not survive JSON")
        return value
    if depth >= MAX_DEPTH and kind in _CONTAINERS:
        raise _RefusedError(f"is nested deeper than {MAX_DEPTH} levels")
    if kind is dict or kind is FrozenDict:
        # A frozen object inside another value is walked again: its depth counts from the new root.
        return _freeze_object(value, depth)
    if kind is list or kind is tuple:
        return _freeze_array(value, depth)
    raise _RefusedError(f"is a {kind.__name__}, not a JSON value")


def _freeze_object(value: dict[Any, Any], depth: int) -> FrozenDict:
    out: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            raise _RefusedError(f"has the key {_shortened(repr(key))}, which is not text")
        try:
            _freeze(key, depth)
            out[key] = _freeze(item, depth + 1)
        except _RefusedError as refused:
            refused.path.append(f".{key}")
            raise
    frozen = dict.__new__(FrozenDict)
    # Past its own refusing method: here the object is made.
    dict.update(frozen, out)  # pyright: ignore[reportUnknownMemberType]
    return frozen


def _freeze_array(value: list[Any] | tuple[Any, ...], depth: int) -> tuple[Any, ...]:
    out: list[Any] = []
    for index, item in enumerate(value):
        try:
            out.append(_freeze(item, depth + 1))
        except _RefusedError as refused:
            refused.path.append(f"[{index}]")
            raise
    return tuple(out)
