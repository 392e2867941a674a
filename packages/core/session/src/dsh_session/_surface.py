"""Which events make up the conversation now, and the messages that they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import msgspec
from dsh_llm import Message, ToolResultBlock

from ._envelope import Replace
from ._errors import SessionError
from ._header import MAX_SAFE_INTEGER
from ._view import AnyEvent
from ._vocabulary import ASSISTANT_MESSAGE, TOOL_RESULT, USER_MESSAGE, ToolResult

SURFACE_TYPES: Final = frozenset({ASSISTANT_MESSAGE.name, TOOL_RESULT.name, USER_MESSAGE.name})
"""The types whose events are nodes of the surface."""


class Replacement(msgspec.Struct, frozen=True):
    """A replacing event and the nodes that it hides."""

    seq: int
    start: int
    end: int
    shadowed_seqs: tuple[int, ...]


class SurfaceFold(msgspec.Struct, frozen=True):
    """The surface after a whole log."""

    nodes: tuple[int, ...]
    """Sequence numbers in the order of the conversation."""
    replacements: tuple[Replacement, ...]


class SurfaceManager:
    """The surface of a log, or of the part of it that starts at `base_seq`.

    `log` is the list that events are added to; the manager reads replaced events from it.
    """

    def __init__(self, log: Sequence[AnyEvent], base_seq: int = 0) -> None:
        self._log = log
        self._base = base_seq
        self._nodes: list[int] = []
        self.replace_generation = 0
        """Goes up by one with each replacement."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Sequence numbers in the order of the conversation; a copy."""
        return tuple(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def since(self, position: int) -> list[int]:
        """The nodes from `position` on."""
        return self._nodes[position:]

    def check(self, event: AnyEvent) -> Replacement | None:
        """What applying `event` would hide. Raises `SessionError` if it may not be applied."""
        surface_op, sources = event.surface_op, event.source_event_seqs
        if event.type not in SURFACE_TYPES:
            if surface_op is not None or sources is not None:
                _refuse(event, "is no part of the conversation, so it has no surface_op or sources")
            return None
        if surface_op is None:
            _refuse(event, "needs a surface_op: 'append' or Replace(start, end)")
        if sources is not None:
            _check_sources(event, sources)
        return None if surface_op == "append" else self._check_replace(event, surface_op)

    def apply(self, event: AnyEvent, replacement: Replacement | None) -> None:
        """Add a checked event."""
        if event.surface_op is None:
            return
        if replacement is None:
            self._nodes.append(event.seq)
            return
        start = self._nodes.index(replacement.start)
        self._nodes[start : start + len(replacement.shadowed_seqs)] = [event.seq]
        self.replace_generation += 1

    def _check_replace(self, event: AnyEvent, op: Replace) -> Replacement:
        nodes = self._nodes
        try:
            start, end = nodes.index(op.start), nodes.index(op.end)
        except ValueError:
            missing = op.start if op.start not in nodes else op.end
            _refuse(event, f"replaces event {missing}, which is not in the conversation")
        if start > end:
            _refuse(event, f"replaces from {op.start} to {op.end}, which stands before it")
        shadowed = tuple(nodes[start : end + 1])
        cited = event.source_event_seqs or ()
        for seq in shadowed:
            if seq not in cited:
                _refuse(event, f"replaces event {seq} without naming it in source_event_seqs")
        if event.type == TOOL_RESULT.name:
            self._check_result(event, shadowed)
        return Replacement(event.seq, op.start, op.end, shadowed)

    def _check_result(self, event: AnyEvent, shadowed: tuple[int, ...]) -> None:
        old = self._log[shadowed[0] - self._base]
        if len(shadowed) != 1 or old.type != TOOL_RESULT.name:
            _refuse(event, "may replace exactly one tool/result")
        if _without_content(event) != _without_content(old):
            _refuse(event, f"may change nothing of event {old.seq} but its block's content")


def fold_surface(events: Iterable[AnyEvent]) -> SurfaceFold:
    """The surface of a whole log. Raises `SessionError` for an event that breaks its rules."""
    log: list[AnyEvent] = []
    surface = SurfaceManager(log)
    replacements: list[Replacement] = []
    for event in events:
        replacement = surface.check(event)
        log.append(event)
        surface.apply(event, replacement)
        if replacement is not None:
            replacements.append(replacement)
    return SurfaceFold(surface.nodes, tuple(replacements))


def derive_event_message(event: AnyEvent) -> Message | None:
    """The message that an event shows as; None if it shows as none."""
    if USER_MESSAGE.of(event):
        return event.data
    if TOOL_RESULT.of(event):
        return event.data.message
    if ASSISTANT_MESSAGE.of(event) and event.data.message.content:
        return event.data.message
    return None


class History:
    """The messages of a surface, made once for each node."""

    def __init__(self, log: Sequence[AnyEvent], surface: SurfaceManager) -> None:
        self._log = log
        self._surface = surface
        self._generation = 0
        self._seen = 0
        self._messages: list[Message] = []
        self._snapshot: tuple[Message, ...] | None = ()

    def messages(self) -> tuple[Message, ...]:
        """All messages; the same tuple until there are new ones."""
        surface = self._surface
        if self._generation != surface.replace_generation:
            self._generation = surface.replace_generation
            self._seen = 0
            self._messages.clear()
            self._snapshot = None
        if self._seen != len(surface):
            for seq in surface.since(self._seen):
                message = derive_event_message(self._log[seq])
                if message is not None:
                    self._messages.append(message)
                    self._snapshot = None
            self._seen = len(surface)
        if self._snapshot is None:
            self._snapshot = tuple(self._messages)
        return self._snapshot


def _check_sources(event: AnyEvent, sources: tuple[int, ...]) -> None:
    if not sources and event.type != ASSISTANT_MESSAGE.name:
        _refuse(event, "has an empty source_event_seqs, which only assistant/message may")
    if len(set(sources)) != len(sources):
        _refuse(event, "names an event twice in source_event_seqs")
    for seq in sources:
        if type(seq) is not int or not 0 <= seq <= MAX_SAFE_INTEGER or seq >= event.seq:
            _refuse(event, f"names {seq!r} in source_event_seqs, which is no earlier event")


def _without_content(event: AnyEvent) -> tuple[Any, ...]:
    data: ToolResult = event.data
    blocks = tuple(
        msgspec.structs.replace(block, content=()) if isinstance(block, ToolResultBlock) else block
        for block in data.message.content
    )
    return (
        msgspec.structs.replace(data.message, content=blocks),
        data.error,
        data.meta,
        data.turn,
        data.step,
    )


def _refuse(event: AnyEvent, reason: str) -> NoReturn:
    raise SessionError(f"{event.type} at {event.seq} {reason}", code="INVALID_SURFACE")
