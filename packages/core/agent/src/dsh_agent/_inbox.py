"""An agent's pending messages, durable as splices in its session log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from dsh_llm import Message, MessageId
from dsh_session import LogEvent
from msgspec import UNSET, UnsetType

from ._errors import AgentError
from ._events import (
    AGENT_INBOX_CLAIMED,
    AGENT_INBOX_DISCARDED,
    AGENT_INBOX_INSERTED,
    InboxClaimed,
    InboxMessage,
)

if TYPE_CHECKING:
    from dsh_cordis import Context

    from ._agent import Agent, InboxTarget


class InboxSpliced(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One list of the inbox changed: as list splicing, at a normalized position."""

    target: Literal["next-turn", "next-step"]
    start: int
    removed_count: int | UnsetType = UNSET
    """Absent when nothing was removed."""
    inserted: tuple[Message, ...]
    outcome: Literal["canceled"] | UnsetType = UNSET
    """Set when messages were removed without being claimed for a step."""


INBOX_SPLICED = LogEvent("agent/inbox/spliced", InboxSpliced)


class Inbox:
    """Two lists of messages that wait for a step; a message's id is unique across both.

    Each change is logged first, then visible here, then announced. A change that the log refuses
    leaves everything as it was and raises to the caller; one that changes nothing logs nothing.
    """

    def __init__(self, agent: Agent, ctx: Context) -> None:
        """The inbox of `agent`, with what its log says is still pending; announces through `ctx`.

        Raises `AgentError` (`INVALID_INBOX`) naming the event whose splice does not fit.
        """
        self._agent = agent
        self._ctx = ctx
        self._lists: dict[InboxTarget, list[Message]] = {"next-turn": [], "next-step": []}
        self._restore()

    @property
    def next_turn(self) -> tuple[Message, ...]:
        """Messages that each open a turn, in order."""
        return tuple(self._lists["next-turn"])

    @property
    def next_step(self) -> tuple[Message, ...]:
        """Messages that all join the next step, in order."""
        return tuple(self._lists["next-step"])

    @property
    def pending(self) -> bool:
        """Whether anything waits in either list."""
        return bool(self._lists["next-turn"] or self._lists["next-step"])

    def append(self, target: InboxTarget, message: Message) -> None:
        """Add `message` at the end of a list."""
        self.splice(target, math.inf, 0, (message,))

    def prepend(self, target: InboxTarget, message: Message) -> None:
        """Add `message` at the head of a list."""
        self.splice(target, 0, 0, (message,))

    def splice(
        self,
        target: InboxTarget,
        start: float,
        delete_count: float,
        inserted: Iterable[Message] = (),
    ) -> tuple[Message, ...]:
        """Replace `delete_count` messages from `start` and return what was removed.

        A negative `start` counts from the end; positions and counts are clamped, NaN is 0.
        Raises `AgentError` (`DUPLICATE_MESSAGE`) for an id that would be pending twice.
        """
        pending = self._lists[target]
        at = _position(start, len(pending))
        count = min(max(_whole(delete_count), 0), len(pending) - at)
        return self._mutate(target, at, int(count), tuple(inserted), claimed=False)

    def replace(self, message_id: MessageId, message: Message) -> bool:
        """Put `message` in the place of a pending one; False if that is not pending."""
        found = self._find(message_id)
        if found is None:
            return False
        self._mutate(found[0], found[1], 1, (message,), claimed=False)
        return True

    def remove(self, message_id: MessageId) -> bool:
        """Drop a pending message; False if it is not pending."""
        found = self._find(message_id)
        if found is None:
            return False
        self._mutate(found[0], found[1], 1, (), claimed=False)
        return True

    def clear(self) -> None:
        """Drop everything: one logged change for each list that held something."""
        for target in ("next-step", "next-turn"):
            self._mutate(target, 0, len(self._lists[target]), (), claimed=False)

    def claim(self, target: InboxTarget, turn: int) -> tuple[Message, ...]:
        """Take what the next step runs: all for the step, then for a turn the head of its list.

        For the agent's driver only.
        """
        taken = list(self._mutate("next-step", 0, len(self._lists["next-step"]), (), claimed=True))
        if target == "next-turn" and self._lists["next-turn"]:
            taken += self._mutate("next-turn", 0, 1, (), claimed=True)
        for message in taken:
            self._ctx.emit(AGENT_INBOX_CLAIMED, InboxClaimed(self._agent, message, turn))
        return tuple(taken)

    def _find(self, message_id: MessageId) -> tuple[InboxTarget, int] | None:
        for target, pending in self._lists.items():
            for at, message in enumerate(pending):
                if message.id == message_id:
                    return target, at
        return None

    def _mutate(
        self, target: InboxTarget, at: int, count: int, new: tuple[Message, ...], *, claimed: bool
    ) -> tuple[Message, ...]:
        if not count and not new:
            return ()
        pending = self._lists[target]
        removed = tuple(pending[at : at + count])
        self._refuse_duplicates(removed, new)
        event = self._agent.session.append(
            INBOX_SPLICED,
            InboxSpliced(
                target=target,
                start=at,
                removed_count=count or UNSET,
                inserted=new,
                outcome="canceled" if removed and not claimed else UNSET,
            ),
        )
        inserted = event.data.inserted
        pending[at : at + count] = inserted
        if not claimed:
            self._announce(removed, inserted)
        return removed

    def _announce(self, removed: Sequence[Message], inserted: Sequence[Message]) -> None:
        for message in removed:
            self._ctx.emit(AGENT_INBOX_DISCARDED, InboxMessage(self._agent, message))
        for message in inserted:
            self._ctx.emit(AGENT_INBOX_INSERTED, InboxMessage(self._agent, message))

    def _refuse_duplicates(self, removed: Sequence[Message], new: Sequence[Message]) -> None:
        if not new:
            return
        gone = {message.id for message in removed}
        taken = {m.id for pending in self._lists.values() for m in pending} - gone
        for message in new:
            if message.id in taken:
                raise AgentError(
                    f"message {message.id!r} is already pending: a message waits once",
                    code="DUPLICATE_MESSAGE",
                )
            taken.add(message.id)

    def _restore(self) -> None:
        session = self._agent.session
        inherited = session.header.seed_length
        # A fork starts with nothing pending: what its parent had queued is the parent's to run.
        start = 0 if inherited is UNSET else inherited
        for event in session.events[start:]:
            if not INBOX_SPLICED.of(event):
                continue
            splice = event.data
            pending = self._lists[splice.target]
            count = 0 if splice.removed_count is UNSET else splice.removed_count
            if min(splice.start, count) < 0 or splice.start + count > len(pending):
                raise AgentError(
                    f"session {session.id!r}: the inbox change at seq {event.seq} takes "
                    f"{count} at {splice.start} of {len(pending)} pending messages",
                    code="INVALID_INBOX",
                )
            pending[splice.start : splice.start + count] = splice.inserted


def _whole(number: float) -> float:
    return 0 if math.isnan(number) else number if math.isinf(number) else int(number)


def _position(start: float, length: int) -> int:
    at = _whole(start)
    return int(max(length + at, 0) if at < 0 else min(at, length))
