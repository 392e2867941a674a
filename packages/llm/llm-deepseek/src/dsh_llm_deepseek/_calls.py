"""Which fragment belongs to which tool call, whatever ids and indexes a server sends."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from typing import cast

import msgspec
from dsh_lossless_json import repaired

from ._wire import TextRepair, WireCall, WireFunction

_NOTHING = WireFunction()


class Call:
    """A call on its way. `id` is unique in the conversation, `wire_id` is what the server said."""

    __slots__ = ("block_index", "id", "name", "parts", "repair", "wire_id")

    def __init__(self, block_index: int, wire_id: str) -> None:
        self.block_index = block_index
        self.wire_id = wire_id
        self.id = ""
        self.name = ""
        self.parts: list[str] = []
        self.repair = TextRepair()

    @property
    def arguments(self) -> str:
        """What came of the arguments."""
        return "".join(self.parts)


class CallTable:
    """The calls of one stream.

    A fragment continues a call of the same index and id. Another id on an index opens another
    call, and so does a name after arguments that are complete: that is how servers look which
    give all calls one index, or none, or no ids.
    """

    __slots__ = ("_by_index", "_ids", "_last", "_taken", "calls")
    calls: list[Call]

    def __init__(self, taken: Callable[[], Collection[str]]) -> None:
        """`taken` gives the ids that the conversation has already; asked when a call opens."""
        self._taken = taken
        self._ids: set[str] = set()
        self._by_index: dict[int, list[Call]] = {}
        self._last: Call | None = None
        self.calls = []

    def match(self, fragment: WireCall) -> Call | None:
        """The open call that `fragment` continues; None if it opens one."""
        call = self._candidate(fragment)
        if call is None or _restarts(fragment, call):
            return None
        self._last = call
        return call

    def open(self, fragment: WireCall, block_index: int) -> Call:
        """A new call for `fragment`, with an id of its own."""
        wire_id = repaired(fragment.id or "")
        call = Call(block_index, wire_id)
        call.id = self._unique(wire_id)
        if fragment.index is not None:
            self._by_index.setdefault(fragment.index, []).append(call)
        self.calls.append(call)
        self._last = call
        return call

    def _candidate(self, fragment: WireCall) -> Call | None:
        same = self.calls if fragment.index is None else self._by_index.get(fragment.index, [])
        if not same:
            return None
        if not fragment.id:
            return self._last if fragment.index is None else same[-1]
        for call in reversed(same):
            if call.wire_id == fragment.id:
                return call
        # An id that comes late completes the call that has none.
        return same[-1] if not same[-1].wire_id and not _named(fragment) else None

    def _unique(self, wire_id: str) -> str:
        """`wire_id`, unless it is empty or taken: results find their call by it."""
        chosen = wire_id
        while not chosen or chosen in self._ids or chosen in self._taken():
            chosen = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(chosen)
        return chosen


def _named(fragment: WireCall) -> bool:
    return bool((fragment.function or _NOTHING).name)


def _restarts(fragment: WireCall, call: Call) -> bool:
    """Whether a fragment that could continue `call` begins another one."""
    if not _named(fragment) or not call.name or not call.parts:
        return False
    if fragment.index is None and not fragment.id:
        return True
    return is_json_object(call.arguments)


def is_json_object(text: str) -> bool:
    """Whether `text` is a complete JSON object that a strict server accepts as arguments."""
    try:
        return isinstance(cast("object", msgspec.json.decode(text)), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
