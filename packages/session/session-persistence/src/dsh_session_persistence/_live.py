"""Writes one live session behind its appends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from dsh_session import AnyEvent, Session

from ._errors import SessionPersistenceError

LINGER_S: Final = 5.0
"""How long a log goes on at shutdown for a session that its owner still closes."""

_log = logging.getLogger("dsh.session-persistence")


class LiveLog:
    """The writer of one live session.

    One task owns every write, so that nobody's cancellation tears one. What is not written yet is
    the end of the session's own log: a failed batch stays where it is and is written again with
    what came after it.
    """

    def __init__(
        self,
        session: Session,
        *,
        delay_s: float,
        bind: Callable[[LiveLog], Awaitable[int]],
        write: Callable[[LiveLog, Sequence[AnyEvent]], Awaitable[None]],
    ) -> None:
        """`bind` finds out how much of the log is stored already, `write` makes more durable."""
        self.session = session
        self.bound = False
        self.ended = asyncio.Event()
        """Set once the task has written its last."""
        self._delay_s = delay_s
        self._bind = bind
        self._write = write
        self._durable = 0
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_call: asyncio.TimerHandle | None = None
        self._barrier: asyncio.Future[None] | None = None
        self._told = ""
        """The last failure that somebody waited for and got."""
        self._given_up = False
        self._closing = False
        self._eager = False
        self._loop = asyncio.get_running_loop()
        self._wakeup: asyncio.Future[None] | None = None

    def bind_to(self, durable: int) -> None:
        """Tell it that the first `durable` events are stored, and that the rest is its own."""
        self.bound = True
        self._durable = durable
        if self.pending:
            self.event_appended()

    @property
    def pending(self) -> bool:
        """Whether something is not durable yet."""
        return self._durable < self.session.seq

    def event_appended(self) -> None:
        """Open the window in which further events join the next write, if none is open."""
        if self._deadline is None:
            self._deadline = self._loop.time() + (0 if self._eager else self._delay_s)
            self._timer = self._loop.call_at(self._deadline, self._wake)

    async def flush(self) -> None:
        """Wait until everything is durable, events appended meanwhile included.

        All who wait share one barrier. Raises what kept the events from being written; they are
        kept.
        """
        if self.bound and not self.pending:
            return
        if self.ended.is_set():
            raise self._closed()
        barrier = self._barrier
        if barrier is None:
            barrier = self._barrier = self._loop.create_future()
            barrier.add_done_callback(_retrieve)
            self._wake()
        # Shielded: one caller's cancellation is not the others'.
        await asyncio.shield(barrier)

    def close(self) -> None:
        """Write what is left and end."""
        self._closing = True
        self._wake()

    def hurry(self) -> None:
        """Write at once from now on: the process is on its way out.

        Ends with the session, or after `LINGER_S` if nobody ends that.
        """
        if not self._eager:
            self._last_call = self._loop.call_later(LINGER_S, self.close)
        self._eager = True
        if self._deadline is not None:
            self._deadline = self._loop.time()
        self._wake()

    async def run(self) -> None:
        """The writer's task. Raises if the last write fails in a way that nobody was told yet."""
        try:
            while not (self._given_up or self._finished()):
                if self._due():
                    await self._drain()
                else:
                    await self._sleep()
        finally:
            self._close_window()
            if self._last_call is not None:
                self._last_call.cancel()
            self.ended.set()
            if self._barrier is not None:
                self._barrier.set_exception(self._closed())

    def _finished(self) -> bool:
        return self._closing and self._barrier is None and self._settled()

    def _settled(self) -> bool:
        # A session that never had an event is never looked up, let alone stored.
        return not self.pending if self.bound else self.session.seq == 0

    def _due(self) -> bool:
        if self._barrier is not None or self._closing:
            return True
        return self._deadline is not None and self._deadline <= self._loop.time()

    async def _drain(self) -> None:
        """Write until nothing is due; failures go to the barrier, or to the log."""
        self._close_window()
        barrier = self._barrier
        try:
            await self._write_all()
        except Exception as error:
            if self._barrier is not None:
                barrier, self._barrier = self._barrier, None
                barrier.set_exception(error)
                self._told = str(error)
            elif not self._closing:
                count = self.session.seq - self._durable
                _log.warning("%s; %d events wait for the next attempt", error, count)
            if self._closing and self._told != str(error):
                raise
            self._given_up = self._closing
            return
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            barrier.set_result(None)

    async def _write_all(self) -> None:
        if not self.bound:
            self._durable = await self._bind(self)
            self.bound = True
        while self.pending:
            self._close_window()
            batch = self.session.events[self._durable :]
            await self._write(self, batch)
            self._durable += len(batch)
            if not self._due():
                return

    def _closed(self) -> SessionPersistenceError:
        return SessionPersistenceError(
            f"session {self.session.id!r} is no longer written: its storage was unloaded",
            code="SESSION_CLOSED",
        )

    def _close_window(self) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def _sleep(self) -> None:
        self._wakeup = self._loop.create_future()
        await self._wakeup
        self._wakeup = None


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
