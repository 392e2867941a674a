"""Facts of the moment as messages: one when they changed, none when they did not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from dsh_llm import Message, PluginSource, create_user_message
from dsh_session import USER_MESSAGE, Replace
from dsh_system_prompt import join_context_sections
from msgspec import UNSET

if TYPE_CHECKING:
    from dsh_llm import PromptSection
    from dsh_session import Session

_PLUGIN: Final = "dsh-system-prompt"
_NOTHING_APPLIES: Final = (
    "No runtime context applies any more. Disregard the earlier snapshots in this conversation."
)


class _Shown(msgspec.Struct, frozen=True):
    """The last snapshot that the model sees; `sections` is None if the record is malformed."""

    seq: int
    sections: tuple[PromptSection, ...] | None


class RuntimeContext:
    """Knows the snapshot that the conversation holds, from the log alone.

    Reads each event once, so a step costs what is new.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read = 0
        self._shown: _Shown | None = None
        self._ever = False

    def candidate(self, sections: tuple[PromptSection, ...]) -> Message | None:
        """The message that brings the model up to date, or None if it is.

        It counts once it is logged.
        """
        self._catch_up()
        if self._shown is not None and self._shown.sections == sections:
            return None
        if sections:
            source = PluginSource(_PLUGIN, form="snapshot", sections=sections)
            return create_user_message(join_context_sections(sections), source=source)
        if not self._ever:
            return None
        return create_user_message(_NOTHING_APPLIES, source=PluginSource(_PLUGIN))

    def _catch_up(self) -> None:
        events = self._session.events
        for seq in range(self._read, len(events)):
            event = events[seq]
            if event.surface_op is None:
                continue
            if isinstance(event.surface_op, Replace) and self._shown is not None:
                cited = event.source_event_seqs or ()
                # A compaction took the snapshot away from the model: show it again.
                self._shown = None if self._shown.seq in cited else self._shown
            if USER_MESSAGE.of(event):
                self._note(seq, event.data)
        self._read = len(events)

    def _note(self, seq: int, message: Message) -> None:
        source = message.source
        if not isinstance(source, PluginSource) or source.plugin != _PLUGIN:
            return
        self._ever = True
        if source.form is UNSET and source.sections is UNSET:
            self._shown = _Shown(seq, ())
        elif source.form == "snapshot" and source.sections is not UNSET:
            self._shown = _Shown(seq, source.sections)
        else:
            self._shown = _Shown(seq, None)
