"""One turn: steps until nothing is owed, then its end, whatever happened in between."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from dsh_agent import AGENT_ERROR, AGENT_TURN_STOPPING, AgentFailed, TurnStopping
from dsh_cordis import AbortController
from dsh_session import (
    TURN_END,
    AbortCause,
    TurnAborted,
    TurnBlocked,
    TurnCompleted,
    TurnEnd,
    TurnEndReason,
    TurnFailed,
    TurnMaxTokens,
)

from ._failures import facts_of, is_failure
from ._step import StepResult, StepRunner

if TYPE_CHECKING:
    from dsh_agent import Agent
    from dsh_cordis import AbortSignal
    from dsh_llm import Message

    from ._seams import Seams

_log = logging.getLogger("dsh.agent_loop")


class Turn(msgspec.Struct):
    """A turn whose start is logged. One signal spans all of it."""

    number: int
    controller: AbortController
    batch: tuple[Message, ...] = ()
    """What its first step was given."""
    step: int = 0
    """The latest step; 0 before any."""
    failure: Exception | None = None
    """What kept it from taking its input."""

    @property
    def signal(self) -> AbortSignal:
        """Stops the turn; its reason is an `AbortCause`."""
        return self.controller.signal


class _Ending(msgspec.Struct, frozen=True):
    reason: TurnEndReason
    goes_on: bool
    """Whether pending input may open the next turn at once."""


class TurnRunner:
    """Runs the turns of one agent, one after another."""

    def __init__(self, agent: Agent, seams: Seams) -> None:
        self._agent = agent
        self._host = seams.host
        self._steps = StepRunner(agent, seams)

    async def run(self, turn: Turn) -> bool:
        """Run an opened turn to its logged end. True if pending input may open the next one.

        Never raises. Cancelling the task leaves the turn open, as a crash would, so that the next
        start repairs the calls that have no result.
        """
        failure: BaseException | None = None
        try:
            ending = await self._run(turn)
        except BaseException as error:
            if not is_failure(error):
                raise
            failure = error
            ending = _Ending(TurnFailed(facts_of(error)), goes_on=False)
        if turn.signal.aborted:
            failure = None
            ending = _Ending(TurnAborted(_cause(turn.signal)), goes_on=False)
        return self._close(turn, ending, failure)

    def _close(self, turn: Turn, ending: _Ending, failure: BaseException | None) -> bool:
        closed = True
        try:
            self._agent.session.append(TURN_END, TurnEnd(turn.number, ending.reason))
        except Exception as error:  # noqa: BLE001 - containment: reported like any failure of a turn
            _log.warning("turn %d of %s has no end in its log", turn.number, self._agent.id)
            failure, closed = error, False
        if failure is not None:
            failed = AgentFailed(self._agent, turn.number, turn.step, failure)
            self._host.emit(AGENT_ERROR, failed)
        return closed and ending.goes_on

    async def _run(self, turn: Turn) -> _Ending:
        if turn.failure is not None:
            raise turn.failure
        inbox = self._agent.inbox
        batch = turn.batch
        due: TurnEndReason | None = None
        capped = False
        while True:
            proposal = await self._steps.propose(turn, batch)
            if proposal is None:
                return _Ending(TurnBlocked(), goes_on=False)
            if not proposal.messages and turn.step == 0:
                return _Ending(TurnCompleted(), goes_on=False)
            if not proposal.messages and due is not None:
                return _Ending(due, goes_on=True)
            result = await self._steps.run(turn, proposal)
            capped = capped or result is StepResult.CAPPED
            due = _due(result, capped=capped)
            if due is not None and await self._may_stop(turn):
                return _Ending(due, goes_on=True)
            batch = inbox.claim("next-step", turn.number)

    async def _may_stop(self, turn: Turn) -> bool:
        """Ask whoever wants more; they answer by queueing something for the next step."""
        inbox = self._agent.inbox
        if inbox.next_step:
            return False
        stopping = TurnStopping(self._agent, turn.number, turn.signal)
        await self._host.serial(AGENT_TURN_STOPPING, stopping)
        turn.signal.throw_if_aborted()
        return not inbox.next_step


def _due(result: StepResult, *, capped: bool) -> TurnEndReason | None:
    """How the turn ends if nothing more comes; None while a request is owed."""
    if result is StepResult.OWES:
        return None
    return TurnMaxTokens() if capped else TurnCompleted()


def _cause(signal: AbortSignal) -> AbortCause:
    assert isinstance(signal.reason, AbortCause)
    return signal.reason
