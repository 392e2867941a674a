"""A view of the first events of a log that does not copy them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar, overload

from ._envelope import SessionEvent

T = TypeVar("T")

AnyEvent: TypeAlias = SessionEvent[Any]


class Prefix(Sequence[T]):
    """The first `length` items of a list that only grows; reading it never copies the list."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T], length: int) -> None:
        self._items = items
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        length = self._length
        if isinstance(index, slice):
            return tuple(map(self._items.__getitem__, range(*index.indices(length))))
        if index < 0:
            index += length
        if not 0 <= index < length:
            raise IndexError(f"no item {index} among {length}")
        return self._items[index]

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    def __repr__(self) -> str:
        return f"<{self._length} items>"
