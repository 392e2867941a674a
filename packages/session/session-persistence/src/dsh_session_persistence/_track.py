"""What is known of one session id: who uses it, and who may write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from dsh_session import Session, SessionHeader

from ._live import LiveLog


@dataclass(slots=True)
class Reservation:
    """A session that was prepared for resuming and is not published yet."""

    session: Session
    durable: int
    """How many of its events are stored."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class Track:
    """The state of one session id. Its operations run one after another, in `chain`."""

    id: str
    chain: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    """Operations that run or wait."""
    header: SessionHeader | None = None
    """Set once the id is taken: by an intent to create, an adopted log or a live session."""
    durable: int = 0
    materialized: bool = False
    unlock: Callable[[], None] | None = None
    """Held while this process is the writer."""
    reservation: Reservation | None = None
    live: LiveLog | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing needs it any more."""
        return (
            not self.users
            and self.header is None
            and self.reservation is None
            and self.live is None
        )

    def let_go(self) -> None:
        """Forget what is stored and stop being the writer."""
        self.header = None
        self.durable = 0
        self.materialized = False
        if self.unlock is not None:
            unlock, self.unlock = self.unlock, None
            unlock()
