"""What has to be on disk before something happens that a crash cannot take back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from dsh_agent import AGENT_PRE_STEP, PreStep, PreStepDecision
from dsh_cordis import Next, Service
from dsh_llm import LLM, LLM_STREAM, GenerateOptions, StreamChunk
from dsh_session import SESSIONS, Session
from dsh_session_persistence import SESSION_PERSISTENCE
from dsh_tools import TOOLS, TOOLS_EXECUTE, ToolExecution, ToolOutcome

if TYPE_CHECKING:
    from dsh_cordis import Context


class SessionCheckpointPolicy(Service):
    """Flushes a session before its model request, its tool bodies and its steps.

    If the flush fails, none of them happens: the error takes their place.
    """

    name = "dsh-session-checkpoint-policy"
    inject = (LLM, SESSION_PERSISTENCE, SESSIONS, TOOLS)

    def __init__(self, ctx: Context, config: Any = None) -> None:  # noqa: ANN401 - there is none
        super().__init__(ctx, config)
        self._sessions = ctx[SESSIONS]

    def start(self) -> None:
        """Listen in every scope."""
        self.own.on(LLM_STREAM, self._before_request, unscoped=True)
        self.own.on(TOOLS_EXECUTE, self._before_tool, unscoped=True)
        self.own.on(AGENT_PRE_STEP, self._before_step, unscoped=True)

    async def _before_request(
        self, options: GenerateOptions, proceed: Next[AsyncIterator[StreamChunk]]
    ) -> AsyncIterator[StreamChunk]:
        session_id = options.session_id
        session = None if session_id is None else self._sessions.get(session_id)
        if session is not None:
            await self._sessions.flush(session)
        return await proceed()

    async def _before_tool(
        self, execution: ToolExecution, proceed: Next[ToolOutcome]
    ) -> ToolOutcome:
        # Calls made by a running tool are covered by the checkpoint of that tool's own call.
        if execution.agent is not None and execution.parent is None:
            await self._flush(execution.agent.session)
        # A call that was aborted while this waited is not run: the registry sees to it.
        return await proceed()

    async def _before_step(self, step: PreStep, proceed: Next[PreStepDecision]) -> PreStepDecision:
        await self._flush(step.agent.session)
        return await proceed()

    async def _flush(self, session: Session) -> None:
        if self._sessions.get(session.id) is session:
            await self._sessions.flush(session)
