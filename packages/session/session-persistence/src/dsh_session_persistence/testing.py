"""A storage in memory that can be told to fail or to wait, for tests and experiments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dsh_session import SESSIONS, AnyEvent, SessionEventTypes, SessionHeader

from ._backend import SessionBackend, StoredLog
from ._errors import SessionPersistenceError
from ._records import decode_records, encode_records
from ._service import PersistenceOptions, SessionPersistence

if TYPE_CHECKING:
    from dsh_cordis import Context


class MemoryBackend(SessionBackend):
    """Keeps logs as the bytes that a file would hold. Survives the services that use it."""

    name = "memory"

    def __init__(self) -> None:
        self.logs: dict[str, tuple[SessionHeader, bytes]] = {}
        self.batches: list[list[int]] = []
        """The sequence numbers of each batch written so far."""
        self.attempts = 0
        """Batches that were begun, the failed ones included."""
        self.failures: list[SessionPersistenceError] = []
        """What the next writes raise, one each."""
        self.gate = asyncio.Event()
        """Writes wait while it is clear; it is set at first."""
        self.gate.set()
        self.types = SessionEventTypes()
        self._locked: set[str] = set()
        self._changed = asyncio.Condition()

    async def until(self, condition: Callable[[MemoryBackend], bool]) -> None:
        """Wait until a write makes `condition` true."""
        async with self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def find(self, session_id: str) -> SessionHeader | None:
        """The stored header."""
        stored = self.logs.get(session_id)
        return None if stored is None else stored[0]

    async def load_stored(self, session_id: str) -> StoredLog | None:
        """The log; an unterminated last line is a torn end, a bad one damage."""
        stored = self.logs.get(session_id)
        if stored is None:
            return None
        header, content = stored
        decoded = decode_records(content, self.types)
        damage = decoded.damage
        log = StoredLog(header, decoded.events)
        if damage is not None:
            log.damage = f"memory, line {damage.line}: {damage.reason}"
        elif decoded.end < len(content):
            log.torn = decoded.end
        return log

    async def lock(self, header: SessionHeader) -> Callable[[], None]:
        """One writer at a time."""
        if header.id in self._locked:
            raise SessionPersistenceError(f"{header.id!r} is locked", code="SESSION_LOCKED")
        self._locked.add(header.id)
        return lambda: self._locked.discard(header.id)

    async def append_batch(
        self, header: SessionHeader, events: Sequence[AnyEvent], *, materialized: bool
    ) -> None:
        """Write, or do as was scripted."""
        self.attempts += 1
        await self._notify()
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        if not materialized and header.id in self.logs:
            raise SessionPersistenceError(f"{header.id!r} is there", code="SESSION_COLLISION")
        kept, content = self.logs.get(header.id, (header, b""))
        self.logs[header.id] = (kept, content + encode_records(events))
        self.batches.append([event.seq for event in events])
        await self._notify()

    async def commit_repair(
        self, header: SessionHeader, torn: object | None, closers: Sequence[AnyEvent]
    ) -> None:
        """Cut and close."""
        kept, content = self.logs[header.id]
        if isinstance(torn, int):
            content = content[:torn]
        self.logs[header.id] = (kept, content + encode_records(closers))

    async def list(self) -> tuple[SessionHeader, ...]:
        """All headers."""
        return tuple(header for header, _ in self.logs.values())

    async def close(self) -> None:
        """Release the locks; the logs stay."""
        self._locked.clear()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class MemoryConfig(PersistenceOptions, frozen=True, rename="camel", kw_only=True):
    """Configuration of `MemoryPersistence`: what every storage has."""


class MemoryPersistence(SessionPersistence):
    """Session persistence in the `MemoryBackend` that the context has as `memory_backend`.

    `ctx.extend(memory_backend=backend).plugin(MemoryPersistence)`; without one it makes its own.
    """

    name = "memory-persistence"
    Config = MemoryConfig

    def __init__(self, ctx: Context, config: MemoryConfig) -> None:
        backend = ctx.meta("memory_backend")
        self.backend = backend if isinstance(backend, MemoryBackend) else MemoryBackend()
        self.backend.types = ctx[SESSIONS].types
        super().__init__(ctx, config, self.backend)
