"""One step: what it may take in, a request, and the calls that the answer asks for."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec
from dsh_agent import AGENT_PRE_STEP, AgentError, Enter, PreStep, Reject, assemble_context_for
from dsh_llm import ToolCallBlock
from dsh_session import STEP_END, STEP_START, USER_MESSAGE, StepMark
from dsh_system_prompt import render_context_sections, render_prompt

from ._failures import is_failure
from ._request import Requester
from ._runtime_context import RuntimeContext
from ._schedule import CallScheduler

if TYPE_CHECKING:
    from dsh_agent import Agent, PreStepDecision
    from dsh_llm import Message, ToolSchema

    from ._seams import Seams
    from ._turn import Turn


class StepResult(Enum):
    """What a step leaves behind."""

    DONE = "done"
    CAPPED = "capped"
    """The output limit cut the answer."""
    OWES = "owes"
    """Calls were answered, so the model has to be asked again."""


class Proposal(msgspec.Struct, frozen=True):
    """All that a step's requests are made of, fixed before it opens."""

    messages: tuple[Message, ...]
    system: str
    tools: tuple[ToolSchema, ...]


class StepRunner:
    """Runs the steps of one agent."""

    def __init__(self, agent: Agent, seams: Seams) -> None:
        self._agent = agent
        self._host = seams.host
        self._prompts = seams.prompts
        self._requests = Requester(agent, seams)
        self._calls = CallScheduler(agent, seams)
        self._context = RuntimeContext(agent.session)

    async def propose(self, turn: Turn, claimed: tuple[Message, ...]) -> Proposal | None:
        """Assemble the prompt and let listeners decide what enters. None if they refuse."""
        signal = turn.signal
        assembly = await self._prompts.assemble(assemble_context_for(self._agent, signal))
        signal.throw_if_aborted()
        system = render_prompt(assembly)
        context = self._context.candidate(render_context_sections(assembly))

        async def enter() -> PreStepDecision:
            # A turn without input must not become one about the runtime context alone.
            bare = not claimed and turn.step == 0
            return Enter(claimed if context is None or bare else (*claimed, context))

        pre_step = PreStep(self._agent, claimed, turn.number, turn.step + 1, signal)
        decision = await self._host.waterfall(AGENT_PRE_STEP, pre_step, inner=enter)
        signal.throw_if_aborted()
        if isinstance(decision, Reject):
            return None
        if not isinstance(decision, Enter):  # pyright: ignore[reportUnnecessaryIsInstance] - plugins decide
            raise AgentError(
                f"a listener of agent/pre-step returned {decision!r}: return what next() gives, "
                "Enter(messages) or Reject()",
                code="INVALID_DECISION",
            )
        return Proposal(tuple(decision.messages), system, assembly.tools)

    async def run(self, turn: Turn, proposal: Proposal) -> StepResult:
        """Open the step, run it, and close it however it went."""
        session = self._agent.session
        turn.step += 1
        mark = StepMark(turn.number, turn.step)
        session.append(STEP_START, mark)
        try:
            result = await self._run(turn, proposal)
        except BaseException as error:
            # A cancelled task leaves its step open, as a crash does: both are repaired alike.
            if is_failure(error):
                session.append(STEP_END, mark)
            raise
        session.append(STEP_END, mark)
        # The step itself is whole; an abort that came during it ends the turn.
        turn.signal.throw_if_aborted()
        return result

    async def _run(self, turn: Turn, proposal: Proposal) -> StepResult:
        session = self._agent.session
        for message in proposal.messages:
            session.append(USER_MESSAGE, message, surface_op="append")
        turn.signal.throw_if_aborted()
        answer = await self._requests.answer(turn, proposal)
        if answer.capped:
            return StepResult.CAPPED
        calls = [block for block in answer.message.content if isinstance(block, ToolCallBlock)]
        if not calls:
            return StepResult.DONE
        concluded = await self._calls.run(turn, calls)
        return StepResult.DONE if concluded else StepResult.OWES
