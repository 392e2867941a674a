"""The first items of a source."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from ._omitted import ExactlyOmitted, NothingOmitted, Omitted, UnknownOmitted
from ._pushed import Pushed

T = TypeVar("T")


class RetainedItems(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What an `ItemRetainer` held in the end."""

    items: tuple[T, ...]
    seen: int
    """How many were pushed."""
    omitted: Omitted

    @property
    def kept(self) -> int:
        """How many of them are here."""
        return len(self.items)

    @property
    def truncated(self) -> bool:
        """Whether anything is missing."""
        return not isinstance(self.omitted, NothingOmitted)


class ItemRetainer(Generic[T]):
    """Keeps the first `max_items` of what is pushed and counts the rest."""

    __slots__ = ("_items", "_max_items", "_seen")

    def __init__(self, max_items: int) -> None:
        if max_items < 0:
            raise ValueError(f"max_items must not be negative, got {max_items!r}")
        self._max_items = max_items
        self._items: list[T] = []
        self._seen = 0

    def push(self, item: T) -> Pushed:
        """Take one more. Once it is not kept, none that follow will be."""
        self._seen += 1
        kept = len(self._items) < self._max_items
        if kept:
            self._items.append(item)
        return Pushed(kept, self._seen > len(self._items))

    def finish(self, *, complete: bool = True) -> RetainedItems[T]:
        """What is held, and how much is missing.

        Not `complete`: the source had more, which was never pushed, so nobody knows how many.
        """
        dropped = self._seen - len(self._items)
        omitted: Omitted = UnknownOmitted()
        if complete:
            omitted = ExactlyOmitted(dropped) if dropped else NothingOmitted()
        return RetainedItems(items=tuple(self._items), seen=self._seen, omitted=omitted)
