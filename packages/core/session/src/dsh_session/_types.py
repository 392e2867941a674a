"""Which event types exist, and how their payloads are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from dsh_lossless_json import freeze

from ._envelope import SessionEventType
from ._errors import SessionError
from ._vocabulary import (
    ASSISTANT_CHUNK,
    ASSISTANT_MESSAGE,
    END_SEED,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    STEP_END,
    STEP_START,
    TOOL_CALL,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
)

GROUP: Final = "dsh.session_events"
"""Entry points: the type's name is the entry's name, its value is where the key is."""

_OWN: Final = (
    ASSISTANT_CHUNK,
    ASSISTANT_MESSAGE,
    END_SEED,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    STEP_END,
    STEP_START,
    TOOL_CALL,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    USER_MESSAGE,
)

KNOWN_SESSION_EVENT_TYPES: Final = frozenset(key.name for key in _OWN) | {
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "permission/preset",
    "plan/mode",
    "sandbox/mode",
    "schedule/change",
    "session/title",
    "session/title-llm-request",
    "subagent/descriptor",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "todo/write",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/code-dispatch",
    "tool/code-dispatch-start",
    "web/deepseek-search-llm-request",
}
"""The types of log format 0. A log of these can be opened whatever is installed."""


class SessionEventTypes:
    """The event types of one installation.

    Types outside this package come from `register` or from the entry points of group
    `dsh.session_events`, which are read once, when the first such type is asked for.
    """

    def __init__(self, entry_points: Callable[[], Mapping[str, str]] | None = None) -> None:
        """`entry_points` gives type name -> `module:attr`; by default what is installed."""
        self._scan = entry_points or _installed
        self._installed: Mapping[str, str] | None = None
        self._keys: dict[str, SessionEventType[Any]] = {key.name: key for key in _OWN}
        self._decoders: dict[str, Callable[[bytes], Any]] = {key.name: key.decode for key in _OWN}

    def register(self, key: SessionEventType[Any]) -> None:
        """Make `key` known without an entry point. Raises `SessionError` if the name is taken."""
        known = self._keys.setdefault(key.name, key)
        if known is not key:
            raise SessionError(
                f"event type {key.name!r} is defined already, as {known!r}",
                code="EVENT_TYPE_TAKEN",
            )
        self._decoders[key.name] = known.decode

    def get(self, name: str) -> SessionEventType[Any] | None:
        """The key of a type, loaded if it has to be; None if nothing installed defines it.

        Raises `SessionError` for an entry point that does not lead to a key of that name.
        """
        key = self._keys.get(name)
        if key is None:
            where = self._entry_points().get(name)
            if where is None:
                return None
            key = _load(name, where)
            self.register(key)
        return key

    def known(self, name: str) -> bool:
        """Whether a log with a required event of this type can be opened here."""
        return (
            name in KNOWN_SESSION_EVENT_TYPES or name in self._keys or name in self._entry_points()
        )

    def decoder(self, name: str) -> Callable[[bytes], Any]:
        """What decodes payloads of the type. Types of plugins are loaded on its first call."""
        decode = self._decoders.get(name)
        if decode is None:
            decode = self._decoders[name] = partial(self._decode_foreign, name)
        return decode

    def _decode_foreign(self, name: str, raw: bytes) -> Any:  # noqa: ANN401 - any payload
        key = self.get(name)
        return freeze(msgspec.json.decode(raw)) if key is None else key.decode(raw)

    def _entry_points(self) -> Mapping[str, str]:
        if self._installed is None:
            self._installed = self._scan()
        return self._installed


def _installed() -> Mapping[str, str]:
    import importlib_metadata  # slow to import, and rarely needed

    found: Any = importlib_metadata.entry_points(group=GROUP)  # pyright: ignore[reportUnknownMemberType] - it is untyped there
    return {entry.name: entry.value for entry in found}


def _load(name: str, where: str) -> SessionEventType[Any]:
    from importlib import import_module

    module, _, attribute = where.partition(":")
    try:
        key = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SessionError(
            f"event type {name!r} is installed as {where!r}, which cannot be loaded: {error}",
            code="EVENT_TYPE_BROKEN",
        ) from error
    if not isinstance(key, SessionEventType) or key.name != name:
        raise SessionError(
            f"event type {name!r} is installed as {where!r}, which is {key!r}",
            code="EVENT_TYPE_BROKEN",
        )
    return key  # pyright: ignore[reportUnknownVariableType]
