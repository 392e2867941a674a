"""Requests of a step: their configuration, their records in the log, and recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from dsh_agent import (
    AGENT_REQUEST,
    AGENT_REQUEST_ERROR,
    AgentError,
    RequestFailed,
    RequestStep,
)
from dsh_llm import (
    Aborted,
    AdapterDefaults,
    Failed,
    GenerateOptions,
    LlmCallConfig,
    LlmError,
    LlmFailure,
    MaxTokens,
    ModelSource,
    create_assistant_message,
)
from dsh_session import (
    ASSISTANT_MESSAGE,
    REQUEST_CONTEXT,
    REQUEST_HEADER,
    AssistantMessage,
    EpochHeader,
    RequestContext,
    RequestHeader,
)
from msgspec import UNSET

from ._stream import Streamed, stream_to_log

if TYPE_CHECKING:
    from dsh_agent import Agent, Retry
    from dsh_llm import Message, PreparedCall

    from ._seams import Seams
    from ._step import Proposal
    from ._turn import Turn


class Answer(msgspec.Struct, frozen=True):
    """A committed assistant message; `capped` if the output limit cut it."""

    message: Message
    capped: bool


class _Route(msgspec.Struct, frozen=True):
    """Where one attempt goes. `prepared` is None if a stream listener must know the provider."""

    config: LlmCallConfig
    prepared: PreparedCall | None


class Requester:
    """Makes the requests of one agent."""

    def __init__(self, agent: Agent, seams: Seams) -> None:
        self._agent = agent
        self._session = agent.session
        self._host = seams.host
        self._llm = seams.llm
        self._first = True

    async def answer(self, turn: Turn, proposal: Proposal) -> Answer:
        """Ask until there is an answer. Raises the failure that nobody recovers from."""
        while True:
            route = await self._route(turn)
            self._log_header(route, proposal)
            self._log_context(route)
            streamed = await self._stream(turn, proposal, route)
            if turn.signal.aborted:
                self._commit_interrupted(turn, route, streamed)
                turn.signal.throw_if_aborted()
            finish = streamed.assembler.finish
            if not isinstance(finish, Failed | Aborted):
                message = self._commit(turn, route, streamed)
                return Answer(message, isinstance(finish, MaxTokens))
            await self._recover(turn, route, finish.failure)

    # -- the route --------------------------------------------------------------------------

    async def _route(self, turn: Turn) -> _Route:
        seed = self._seed()

        async def inner() -> LlmCallConfig:
            return seed

        step = RequestStep(self._agent, turn.number, turn.step, turn.signal)
        config = await self._host.waterfall(AGENT_REQUEST, step, inner=inner)
        turn.signal.throw_if_aborted()
        if not isinstance(config, LlmCallConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - plugins decide
            raise AgentError(
                f"a listener of agent/request returned {config!r}: return what next() gives, or a "
                "changed copy of it",
                code="INVALID_DECISION",
            )
        if not config.provider or not config.model:
            raise AgentError(
                f"agent {self._agent.id!r} has no model: give its options a provider and a model, "
                "or install a model selection",
                code="NO_MODEL",
            )
        try:
            prepared = await self._llm.prepare_call(config, turn.signal)
        except LlmError as error:
            if error.code != "NO_ADAPTER":
                raise
            prepared = None
        turn.signal.throw_if_aborted()
        return _Route(prepared.config if prepared else config, prepared)

    def _seed(self) -> LlmCallConfig:
        """What listeners start from: at first the agent's options, then the last request."""
        header = self._session.request_header()
        if self._first or header is None:
            return self._from_options(header)
        marks = header.adapter_defaults
        if marks is UNSET:
            return header.config
        return msgspec.structs.replace(
            header.config,
            reasoning_effort=UNSET if marks.reasoning_effort else header.config.reasoning_effort,
            max_tokens=UNSET if marks.max_tokens else header.config.max_tokens,
        )

    def _from_options(self, header: EpochHeader | None) -> LlmCallConfig:
        options = self._agent.options
        config = LlmCallConfig(
            provider=options.provider or "",
            model=options.model or "",
            max_tokens=UNSET if options.max_tokens is None else options.max_tokens,
        )
        if header is None or (header.config.provider, header.config.model) != (
            config.provider,
            config.model,
        ):
            return config
        marks = header.adapter_defaults
        if marks is not UNSET and marks.reasoning_effort:
            return config
        return msgspec.structs.replace(config, reasoning_effort=header.config.reasoning_effort)

    # -- records ----------------------------------------------------------------------------

    def _log_header(self, route: _Route, proposal: Proposal) -> None:
        """Log everything of the request that is not a message, if it changed."""
        prepared = route.prepared
        marks = prepared.adapter_defaults if prepared else AdapterDefaults()
        header = EpochHeader(
            config=route.config,
            adapter_defaults=UNSET if marks == AdapterDefaults() else marks,
            system=proposal.system or UNSET,
            tools=proposal.tools or UNSET,
        )
        last = self._session.request_header()
        if last is None:
            reason = "initial"
        elif self._first:
            reason = "resume"
        elif header != last:
            reason = "change"
        else:
            return
        self._session.append(REQUEST_HEADER, RequestHeader(header, reason))
        self._first = False

    def _log_context(self, route: _Route) -> None:
        window = route.prepared.context_window if route.prepared else UNSET
        context = RequestContext(route.config.provider, route.config.model, window)
        if context != self._session.request_context():
            self._session.append(REQUEST_CONTEXT, context)

    def _commit(self, turn: Turn, route: _Route, streamed: Streamed) -> Message:
        source = ModelSource(route.config.provider, route.config.model)
        message = streamed.assembler.message(source)
        self._append(turn, streamed, message, interrupted=False)
        return message

    def _commit_interrupted(self, turn: Turn, route: _Route, streamed: Streamed) -> None:
        """Keep what could be read of a stopped answer; calls in it are not."""
        blocks = streamed.assembler.interrupted_blocks()
        if blocks:
            source = ModelSource(route.config.provider, route.config.model)
            message = create_assistant_message(blocks, source=source)
            self._append(turn, streamed, message, interrupted=True)

    def _append(
        self, turn: Turn, streamed: Streamed, message: Message, *, interrupted: bool
    ) -> None:
        usage = streamed.assembler.usage
        self._session.append(
            ASSISTANT_MESSAGE,
            AssistantMessage(
                turn.number,
                turn.step,
                message,
                UNSET if usage is None else usage,
                True if interrupted else UNSET,
            ),
            surface_op="append",
            source_event_seqs=streamed.seqs,
        )

    # -- the stream -------------------------------------------------------------------------

    async def _stream(self, turn: Turn, proposal: Proposal, route: _Route) -> Streamed:
        options = GenerateOptions(
            config=route.config,
            messages=self._session.derive_messages(),
            system=proposal.system,
            tools=proposal.tools,
            signal=turn.signal,
            session_id=self._session.id,
        )
        source = route.prepared or self._llm
        return await stream_to_log(self._session, turn, source.stream(options))

    async def _recover(self, turn: Turn, route: _Route, failure: LlmFailure) -> None:
        """Return to make the request again; raise to give up."""

        async def give_up() -> Retry | None:
            return None

        failed = RequestFailed(
            agent=self._agent,
            turn=turn.number,
            step=turn.step,
            provider=route.config.provider,
            failure=failure,
            retry_policy=route.prepared.retry_policy if route.prepared else None,
            signal=turn.signal,
        )
        decision = await self._host.waterfall(AGENT_REQUEST_ERROR, failed, inner=give_up)
        turn.signal.throw_if_aborted()
        if decision is None:
            raise LlmError.of(failure)
