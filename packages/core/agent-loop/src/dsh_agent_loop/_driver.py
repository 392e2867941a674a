"""The agent itself: its states, and the driver that takes turns while there is work."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
from dsh_agent import (
    AGENT_ERROR,
    AGENT_STATUS,
    Agent,
    AgentError,
    AgentFailed,
    AgentOptions,
    AgentStatus,
    AgentStatusChanged,
    Inbox,
    InboxTarget,
)
from dsh_cordis import AbortController, CordisError
from dsh_session import TURN_START, AbortCause, ByDisposal, TurnStart

from ._turn import Turn, TurnRunner

if TYPE_CHECKING:
    from dsh_cordis import Context
    from dsh_llm import Message
    from dsh_session import Session

    from ._seams import Seams

_log = logging.getLogger("dsh.agent_loop")


class _Run:
    """One running interval: from a wake to the driver's rest, over any number of turns."""

    __slots__ = ("controller", "done", "turn", "wake_requested")

    def __init__(self) -> None:
        self.controller = AbortController()
        """Of the present turn."""
        self.turn: Turn | None = None
        self.wake_requested = False
        """Whether somebody wanted a turn after the present one was aborted."""
        self.done = anyio.Event()

    @property
    def aborted(self) -> bool:
        return self.controller.signal.aborted

    @property
    def disposed(self) -> bool:
        return self.aborted and isinstance(self.controller.signal.reason, ByDisposal)


class LoopAgent(Agent):
    """An agent driven by this loop: idle, or running one driver.

    Everything that has to be true when `send` returns happens synchronously; the driver's task
    only goes on from there.
    """

    def __init__(self, session: Session, options: AgentOptions, seams: Seams) -> None:
        """Not usable before `enter_scope`."""
        self.id = session.id
        self.options = options
        self.session = session
        self._seams = seams
        self._host = seams.host
        self._run: _Run | None = None
        self._closing = False
        self._gone = False
        self._last_turn = _last_turn(session)

    def enter_scope(self, ctx: Context) -> None:
        """Take the agent's own context; its pending messages are read from the log."""
        self.ctx = ctx
        self.inbox = Inbox(self, self._host)
        self._turns = TurnRunner(self, self._seams)

    @property
    def status(self) -> AgentStatus:
        """`running` from a wake to the driver's rest."""
        return "idle" if self._run is None else "running"

    def send(self, message: Message, target: InboxTarget, *, wakeup: bool = True) -> None:
        """As the definition says. Raises `AgentError` (`AGENT_DISPOSED`) once it is gone."""
        if self._gone:
            raise AgentError(
                f"agent {self.id!r} is disposed: resume its session", code="AGENT_DISPOSED"
            )
        run = self._run
        # A turn that is being stopped takes nothing in; what wakes now is for the one after it.
        late = wakeup and run is not None and run.aborted
        self.inbox.append("next-turn" if late else target, message)
        if not wakeup:
            return
        if self._run is None:
            self._wake()
        elif late and not self._run.disposed:
            self._run.wake_requested = True

    def cancel(self, cause: AbortCause, *, keep_inbox: bool = False) -> None:
        """As the definition says. A listener of this session's events may call it, too."""
        run = self._run
        try:
            if not keep_inbox:
                if run is not None:
                    run.wake_requested = False
                self.inbox.clear()
        finally:
            # Clearing is refused while an event is being published; stopping is not.
            if run is not None:
                run.controller.abort(cause)

    async def when_idle(self) -> None:
        """As the definition says."""
        while (run := self._run) is not None:
            await run.done.wait()

    # -- disposal, for the factory ----------------------------------------------------------

    def close(self) -> None:
        """Stop for good: nothing wakes the agent any more. Wait for `when_idle` then."""
        self._closing = True
        try:
            self.cancel(ByDisposal())
        except CordisError:
            _log.warning("pending input of %s stays in its log", self.id, exc_info=True)

    def leave(self) -> None:
        """Refuse further input: no log takes it any more."""
        self._gone = True

    # -- the driver -------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._closing:
            return
        run = _Run()
        try:
            self._host.spawn(self._drive, run, stop=self._stop, name=f"agent {self.id}")
        except CordisError:
            # The loop is unloading. What was sent is in the log and waits for a resume.
            _log.debug("%s stays idle: the loop is unloading", self.id, exc_info=True)
            return
        self._run = run
        self._host.emit(AGENT_STATUS, AgentStatusChanged(self, "running"))
        if not run.aborted:
            run.turn = self._open_turn(run)

    def _stop(self) -> None:
        self.cancel(ByDisposal())

    def _open_turn(self, run: _Run) -> Turn | None:
        """Log the start of a turn and take its input. None if the log refuses the turn."""
        number = self._last_turn + 1
        try:
            self.session.append(TURN_START, TurnStart(number))
        except Exception as error:  # noqa: BLE001 - containment: a sender must not pay for a refused turn
            self._host.emit(AGENT_ERROR, AgentFailed(self, number, 0, error))
            return None
        self._last_turn = number
        turn = Turn(number, run.controller)
        try:
            turn.batch = self.inbox.claim("next-turn", number)
        except Exception as error:  # noqa: BLE001 - containment: the open turn has to be closed
            turn.failure = error
        return turn

    async def _drive(self, run: _Run) -> None:
        try:
            await self._seams.agents.with_initiator(self, lambda: self._take_turns(run))
        finally:
            self._rest(run)

    async def _take_turns(self, run: _Run) -> None:
        turn = run.turn
        while turn is not None:
            goes_on = await self._turns.run(turn)
            if not goes_on or run.aborted or not self.inbox.pending:
                return
            run.controller = AbortController()
            turn = self._open_turn(run)

    def _rest(self, run: _Run) -> None:
        self._run = None
        self._host.emit(AGENT_STATUS, AgentStatusChanged(self, "idle"))
        # A listener of that may have woken it already.
        if run.wake_requested and self._run is None and self.inbox.pending:
            self._wake()
        run.done.set()


def _last_turn(session: Session) -> int:
    for event in reversed(session.events):
        if TURN_START.of(event):
            return event.data.turn
    return 0
