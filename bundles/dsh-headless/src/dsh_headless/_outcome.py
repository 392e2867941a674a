"""What a run came to, read from its session log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from dsh_llm import text_of
from dsh_lossless_json import encode
from dsh_session import (
    ASSISTANT_MESSAGE,
    TURN_END,
    TURN_START,
    SessionEvent,
    TurnCompleted,
    TurnEndReason,
    TurnFailed,
)
from msgspec import json as msgspec_json

_ENDINGS: Final = {
    "ABORTED": "the turn was stopped before it finished",
    "BLOCKED": "a plugin refused the task",
    "MAX_TOKENS": "the output limit cut the answer short",
}


class Outcome(msgspec.Struct, frozen=True):
    """The answer, or why there is none."""

    text: str
    code: str | None = None
    """None: the last turn completed."""
    message: str = ""


def fold_outcome(events: Iterable[SessionEvent[Any]]) -> Outcome:
    """The outcome of the turns in `events`: the last text that is not blank, the last ending."""
    text = ""
    reason: TurnEndReason | None = None
    in_turn = False
    for event in events:
        if TURN_START.of(event):
            in_turn = True
        elif TURN_END.of(event):
            reason = event.data.reason
        elif in_turn and ASSISTANT_MESSAGE.of(event):
            said = text_of(event.data.message.content)
            text = said if said.strip() else text
    if isinstance(reason, TurnCompleted):
        return Outcome(text)
    if reason is None:
        return Outcome("", "NO_TURN", "the run ended before its turn began")
    if isinstance(reason, TurnFailed):
        return Outcome("", reason.error.code, reason.error.message)
    kind = str(msgspec_json.decode(encode(reason))["kind"])
    code = kind.upper().replace("-", "_")
    return Outcome("", code, _ENDINGS.get(code, f"the turn ended as {kind!r}"))
