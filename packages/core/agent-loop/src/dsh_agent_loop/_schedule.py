"""The calls of one answer: which may overlap, in which order they are logged."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from dsh_llm import ContentBlock, TextBlock, ToolCallBlock, create_tool_result_message
from dsh_session import TOOL_CALL, TOOL_RESULT, ErrorName, ToolCall, ToolResult
from dsh_tools import ToolCallRequest, ToolFailure, ToolSuccess
from msgspec import UNSET, UnsetType

from ._failures import is_failure

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from dsh_agent import Agent
    from dsh_lossless_json import FrozenJson
    from dsh_tools import ExecutionMode, ToolOutcome, ToolRegistry, ToolRun

    from ._seams import Seams
    from ._turn import Turn

_NOT_DISPATCHED: Final = "Error: the call was stopped before it started; nothing was done"
_ABORTED: Final = ErrorName("AbortError", "ABORTED_BEFORE_DISPATCH")


class CallScheduler:
    """Runs the calls of an agent's answers, those that allow it at the same time."""

    def __init__(self, agent: Agent, seams: Seams) -> None:
        self._agent = agent
        self._tools = seams.tools
        self._limit = seams.max_parallel_tool_calls

    async def run(self, turn: Turn, calls: list[ToolCallBlock]) -> bool:
        """Run `calls` and log each with exactly one result. True if a result ends the turn.

        After an abort what has started is awaited and logged, and what has not gets a result that
        says so. A failure of the machinery itself is raised once the running bodies have ended;
        then calls may be without a result.
        """
        requested = [_Call(block, self._request(block, turn)) for block in calls]
        batch = _Batch(self._agent, self._tools, turn, self._limit)
        at = 0
        while at < len(requested) and not turn.signal.aborted:
            at = await batch.run_group(requested, at)
        for call in requested[at:]:
            batch.skip(call)
        return batch.concluded

    def _request(self, block: ToolCallBlock, turn: Turn) -> ToolCallRequest:
        return ToolCallRequest(
            call_id=block.id,
            name=block.name,
            arguments=_parsed(block.arguments),
            agent=self._agent,
            signal=turn.signal,
        )


class _Call(msgspec.Struct, frozen=True):
    """A call and its one request, which remembers how its arguments were converted."""

    block: ToolCallBlock
    request: ToolCallRequest


class _Slot(msgspec.Struct):
    """A started call whose result waits for those before it."""

    call_seq: int
    run: ToolRun
    call_id: str
    settled: bool = False


class _Batch:
    """The state of one answer's calls."""

    def __init__(self, agent: Agent, tools: ToolRegistry, turn: Turn, limit: int) -> None:
        self._agent = agent
        self._session = agent.session
        self._tools = tools
        self._turn = turn
        self._limit = limit
        self._slots: deque[_Slot] = deque()
        self._running = 0
        self._failure: BaseException | None = None
        self._progress = anyio.Event()
        self.concluded = False

    async def run_group(self, calls: list[_Call], at: int) -> int:
        """Run the calls from `at` that belong together; return where the next group begins."""
        if self._mode(calls[at]) == "exclusive":
            await self._run_alone(calls[at])
            return at + 1
        async with anyio.create_task_group() as bodies:
            try:
                at = await self._run_pool(calls, at, bodies)
            except BaseException as error:  # noqa: BLE001 - containment: running bodies are awaited, not cancelled
                self._note(error)
        if self._failure is not None:
            raise self._failure
        return at

    async def _run_alone(self, call: _Call) -> None:
        slot = self._start(call)
        if await slot.run.prepare():
            await slot.run.dispatch()
        await self._commit(slot)

    async def _run_pool(self, calls: list[_Call], at: int, bodies: TaskGroup) -> int:
        """Keep up to the limit of bodies running until the group or the turn ends."""
        first = at
        while self._failure is None:
            await self._commit_settled()
            if self._may_start(calls, at, first):
                await self._start_body(calls[at], bodies)
                at += 1
            elif self._slots:
                await self._progress.wait()
                self._progress = anyio.Event()
            else:
                break
        return at

    def _may_start(self, calls: list[_Call], at: int, first: int) -> bool:
        if at >= len(calls) or self._running >= self._limit or self._turn.signal.aborted:
            return False
        # Read again for each start: what ran before may have changed what a tool allows.
        return at == first or self._mode(calls[at]) == "parallel"

    async def _start_body(self, call: _Call, bodies: TaskGroup) -> None:
        slot = self._start(call)
        self._slots.append(slot)
        if await slot.run.prepare():
            self._running += 1
            bodies.start_soon(self._body, slot)
        else:
            slot.settled = True

    async def _body(self, slot: _Slot) -> None:
        try:
            await slot.run.dispatch()
        except BaseException as error:  # noqa: BLE001 - containment: siblings run to their end
            self._note(error)
        finally:
            self._running -= 1
            slot.settled = True
            self._progress.set()

    def _note(self, error: BaseException) -> None:
        """Remember the first failure; a cancellation of the task goes on its way."""
        if not is_failure(error):
            raise error
        self._failure = self._failure or error

    async def _commit_settled(self) -> None:
        while self._slots and self._slots[0].settled and self._failure is None:
            await self._commit(self._slots.popleft())

    def _start(self, call: _Call) -> _Slot:
        call_seq = self._log_call(call.block)
        return _Slot(call_seq, self._tools.begin(call.request), call.block.id)

    async def _commit(self, slot: _Slot) -> None:
        outcome = await slot.run.finalize()
        self._log_result(
            slot.call_id,
            slot.call_seq,
            outcome.content,
            is_error=outcome.is_error,
            error=_error_name(outcome),
            meta=outcome.meta,
        )
        for message in outcome.additional_contexts:
            self._agent.inbox.append("next-step", message)
        if isinstance(outcome, ToolSuccess) and outcome.concludes_turn:
            self.concluded = True

    def skip(self, call: _Call) -> None:
        """Log a call that the abort kept from starting."""
        seq = self._log_call(call.block)
        content = (TextBlock(_NOT_DISPATCHED),)
        self._log_result(call.block.id, seq, content, is_error=True, error=_ABORTED, meta=UNSET)

    def _log_call(self, call: ToolCallBlock) -> int:
        turn = self._turn
        logged = ToolCall(turn.number, turn.step, call.id, call.name, call.arguments)
        return self._session.append(TOOL_CALL, logged).seq

    def _log_result(
        self,
        call_id: str,
        call_seq: int,
        content: tuple[ContentBlock, ...],
        *,
        is_error: bool,
        error: ErrorName | UnsetType,
        meta: FrozenJson | UnsetType,
    ) -> None:
        turn = self._turn
        message = create_tool_result_message(call_id, content, is_error=is_error)
        self._session.append(
            TOOL_RESULT,
            ToolResult(turn.number, turn.step, message, error, meta),
            surface_op="append",
            source_event_seqs=(call_seq,),
        )

    def _mode(self, call: _Call) -> ExecutionMode:
        return self._tools.execution_mode(call.request)


def _parsed(arguments: str) -> object:
    """Arguments as data; text that is not JSON stays as it is, for the tool's error to show."""
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _error_name(outcome: ToolOutcome) -> ErrorName | UnsetType:
    if not isinstance(outcome, ToolFailure):
        return UNSET
    info = outcome.error
    return UNSET if info.name is None or info.code is None else ErrorName(info.name, info.code)
