"""Insertion-ordered storage whose additions undo exactly themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ._errors import ScopeError

T = TypeVar("T")


class NamedEntries(Generic[T]):
    """Values by unique name, in order of insertion."""

    __slots__ = ("_entries", "_what")

    def __init__(self, what: str = "entry") -> None:
        self._what = what
        self._entries: dict[str, tuple[T]] = {}

    def add(self, name: str, value: T) -> Callable[[], None]:
        """Add; the result removes exactly this entry, once. Raises ScopeError on a taken name."""
        if name in self._entries:
            raise ScopeError(
                f'{self._what} "{name}" is already registered here', code="DUPLICATE_NAME"
            )
        entry = (value,)  # its identity is this insertion: a stale undo leaves a later one alone
        self._entries[name] = entry

        def undo() -> None:
            if self._entries.get(name) is entry:
                del self._entries[name]

        return undo

    def get(self, name: str) -> T | None:
        """The value of that name, or None."""
        entry = self._entries.get(name)
        return None if entry is None else entry[0]

    def items(self) -> Iterator[tuple[str, T]]:
        """Names and values in order."""
        return ((name, entry[0]) for name, entry in tuple(self._entries.items()))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


class AnonymousEntries(Generic[T]):
    """Values in order of insertion; equal ones are kept apart."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[object, T] = {}

    def add(self, value: T) -> Callable[[], None]:
        """Add; the result removes exactly this entry, once."""
        token = object()
        self._entries[token] = value

        def undo() -> None:
            self._entries.pop(token, None)

        return undo

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)
