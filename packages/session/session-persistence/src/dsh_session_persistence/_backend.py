"""What a storage has to offer, and what passes between it and the service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import msgspec
from dsh_session import AnyEvent, SessionHeader

from ._errors import SessionPersistenceError


class StoredLocation(msgspec.Struct, frozen=True):
    """Where a session is, or would be, stored."""

    kind: str
    path: str
    """Absolute; need not exist."""


class StoredSession(msgspec.Struct, frozen=True):
    """A stored session as it is read."""

    meta: SessionHeader
    events: tuple[AnyEvent, ...]
    damage: str | None = None
    """What is wrong after the last of `events`, with file and position; None for a sound log."""


class RawArtifact(msgspec.Struct, frozen=True):
    """A stored session as text, for people who want the file."""

    meta: SessionHeader
    filename: str
    content: bytes


class StoredLog(msgspec.Struct):
    """What a backend found of one session; the lists are the reader's to keep."""

    header: SessionHeader
    events: list[AnyEvent] = msgspec.field(default_factory=list)
    torn: object | None = None
    """Where an unfinished last write begins, for `commit_repair`; None if there is none."""
    damage: str | None = None
    """As in `StoredSession`; the events end before it."""


class SessionBackend(ABC):
    """A storage of session logs. The service calls it for one session at a time.

    All methods raise `SessionPersistenceError`; absence is no error.
    """

    name: str
    """For error texts."""

    @abstractmethod
    async def find(self, session_id: str) -> SessionHeader | None:
        """The stored header; None if nothing is stored under the id."""

    @abstractmethod
    async def load_stored(self, session_id: str) -> StoredLog | None:
        """Everything that is stored; None if nothing is. Changes nothing."""

    @abstractmethod
    async def lock(self, header: SessionHeader) -> Callable[[], None]:
        """Become the one writer of a session, stored or not; the result gives that up.

        Never waits: raises `SESSION_LOCKED` naming the writer.
        """

    @abstractmethod
    async def append_batch(
        self, header: SessionHeader, events: Sequence[AnyEvent], *, materialized: bool
    ) -> None:
        """Make `events` durable, all or nothing. The caller holds the lock.

        Without `materialized` nothing is stored yet: header and events appear together, and an
        artifact that is there already raises `SESSION_COLLISION`.
        """

    @abstractmethod
    async def commit_repair(
        self, header: SessionHeader, torn: object | None, closers: Sequence[AnyEvent]
    ) -> None:
        """Cut off the torn end that `load_stored` found, keep its whole events, add `closers`."""

    @abstractmethod
    async def list(self) -> tuple[SessionHeader, ...]:
        """The headers of all stored sessions. One unreadable session does not hide the others."""

    def locate(self, header: SessionHeader) -> StoredLocation | None:  # noqa: ARG002 - a storage without places
        """Where the session is or would be; None if a place means nothing here. No I/O."""
        return None

    supports_raw_artifacts: bool = False

    async def read_raw(self, session_id: str) -> RawArtifact | None:  # noqa: ARG002 - see above
        """The log as text; None if absent."""
        raise SessionPersistenceError(
            f"the {self.name} storage has no raw logs", code="RAW_UNSUPPORTED"
        )

    @abstractmethod
    async def close(self) -> None:
        """Give up everything held, locks included."""
