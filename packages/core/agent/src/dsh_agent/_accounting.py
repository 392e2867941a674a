"""What became of the input that an agent was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from dsh_session import STEP_START, TURN_END, TURN_START, SessionEvent, TurnCompleted, TurnEnd
from msgspec import UNSET

from ._inbox import INBOX_SPLICED, InboxSpliced


class ConsumedWork(msgspec.Struct, frozen=True):
    """The last turn that did something with its input, and whether later input was dropped."""

    end: SessionEvent[TurnEnd] | None = None
    """The end of the latest turn that opened a step, or took input and ended otherwise."""
    dropped_unrun: bool = False
    """Whether pending input was canceled after `end`."""


def fold_consumed_work(events: Iterable[SessionEvent[Any]]) -> ConsumedWork:
    """Read from a log, or a part of it, how the latest consumed input ended.

    A turn whose claimed input was emptied and that completed without a step counts for nothing.
    """
    end: SessionEvent[TurnEnd] | None = None
    dropped = stepped = claimed = is_open = False
    for event in events:
        if TURN_START.of(event):
            is_open, stepped, claimed = True, False, False
        elif STEP_START.of(event):
            stepped = True
        elif INBOX_SPLICED.of(event):
            dropped = dropped or _cancels(event.data)
            claimed = claimed or (is_open and _claims(event.data))
        elif TURN_END.of(event):
            if stepped or (claimed and not isinstance(event.data.reason, TurnCompleted)):
                end, dropped = event, False
            is_open = False
    return ConsumedWork(end, dropped)


def _claims(splice: InboxSpliced) -> bool:
    return splice.removed_count is not UNSET and splice.outcome is UNSET


def _cancels(splice: InboxSpliced) -> bool:
    return splice.outcome is not UNSET and not splice.inserted
