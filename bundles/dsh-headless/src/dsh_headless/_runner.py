"""Drives one agent over one task and ends the process."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from typing import Annotated, Final

import msgspec
from dsh_agent import (
    AGENTS,
    Agent,
    AgentOptions,
    CreateAgent,
    ModelSelection,
    ResumeAgent,
    SelectionState,
    agent_of,
    install_model_selection,
)
from dsh_agent_default_model import AGENT_DEFAULT_MODEL
from dsh_cmdline import APP_EXIT
from dsh_cordis import AbortController, Context, CordisError, FiberState
from dsh_cordis_loader import LOADER
from dsh_llm import LLM, LlmError, SessionId, create_user_message
from dsh_lossless_json import unsafe_text
from dsh_session import SESSION_EVENT, SESSIONS, ByUser, SessionAppended, SessionMeta
from dsh_shell import SHELL
from msgspec import UNSET, Meta

from ._errors import HeadlessError
from ._outcome import Outcome, fold_outcome
from ._output import JsonOutput, Output, TextOutput, require_stdout, say
from ._stdin import read_stdin

_LEAVING: Final = (FiberState.UNLOADING, FiberState.DISPOSED)

_log = logging.getLogger("dsh.headless")

name = "dsh-headless"
inject = (AGENTS, AGENT_DEFAULT_MODEL, APP_EXIT, LLM, LOADER, SESSIONS)


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The run."""

    task: Annotated[
        str, Meta(min_length=1, description="What to do; `-` alone: read it from stdin.")
    ]
    json: Annotated[bool, Meta(description="Print JSON lines instead of the answer.")] = False
    session_id: Annotated[
        str, Meta(description="Stored session to go on with; empty: a new one.")
    ] = ""
    model: Annotated[
        str, Meta(description="`[PROVIDER/]MODEL`; empty: the default, or the session's.")
    ] = ""


def apply(ctx: Context, config: Config) -> None:
    """Start the run; it ends the process when it is done."""
    run = HeadlessRun(ctx, config)
    ctx.spawn(run.main, stop=run.stop, name="headless run")


class HeadlessRun:
    """One run. `stop` ends it early in good order: the turn is closed and the log flushed."""

    def __init__(self, ctx: Context, config: Config) -> None:
        self._ctx = ctx
        self._config = config
        self._app_exit = ctx[APP_EXIT]
        self._stopping = AbortController()
        self._agent: Agent | None = None
        self._unprinted: HeadlessError | None = None
        self._output: Output = JsonOutput() if config.json else TextOutput()

    def stop(self) -> None:
        """Stop whatever the run waits for; `main` then ends by itself."""
        self._stopping.abort(HeadlessError("the run was stopped", code="ABORTED"))
        if self._agent is not None:
            self._agent.cancel(ByUser())

    async def main(self) -> None:
        """The run from the first check to the exit."""
        code: int | None = 1
        try:
            code = self._finish(await self._outcome())
        finally:
            # Whatever happens: a run without an end would keep the process for ever.
            if code is not None:
                self._app_exit(code)

    async def _outcome(self) -> Outcome | None:
        try:
            if not await self._settled():
                return None
            return await self._run()
        except CordisError as error:
            return Outcome("", error.code, str(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return Outcome("", "UNKNOWN", "something that the run waited for was cancelled")
        except Exception as error:  # noqa: BLE001 - containment: a run ends with a line, never a trace
            _log.exception("the run failed")
            return Outcome("", "UNKNOWN", f"{type(error).__name__}: {error}")

    def _finish(self, outcome: Outcome | None) -> int | None:
        if outcome is None:
            return None
        if outcome.code is not None:
            say(f"{outcome.code}: {outcome.message}")
        try:
            self._output.outcome(outcome)
        except HeadlessError as error:
            if outcome.code is None:
                say(f"{error.code}: {error}")
            return 1
        return 0 if outcome.code is None else 1

    async def _settled(self) -> bool:
        """Check what needs no waiting, then wait for the other rows; False if unloaded meanwhile.

        An unload during the boot is the launcher's affair: it knows why and says so.
        """
        try:
            require_stdout()
            provider = self._selection().provider
            failure = self._ctx[LLM].readiness(provider)
            # The row of a route that is not there may have failed: the launcher tells how.
            if failure is None or failure.code != "NO_ADAPTER":
                self._require_ready(provider)
            await self._ctx[LOADER].settled()
            if not self._unloading:
                self._require_ready(provider)
        except CordisError:
            if self._unloading:
                return False
            raise
        return not self._unloading

    @property
    def _unloading(self) -> bool:
        # Services of a tree that ends are gone before its plugins are told to stop.
        return self._stopping.signal.aborted or self._ctx.fiber.state in _LEAVING

    async def _run(self) -> Outcome:
        ctx, signal = self._ctx, self._stopping.signal
        default = self._selection()
        task = self._config.task
        if task == "-":
            task = await read_stdin(signal)
        _require_sound(task)
        shell = ctx.get(SHELL)
        if shell is not None and shell.sandbox_mode is None:
            say("no sandbox: commands and file changes have your own rights")
        agent = self._agent = await self._open_agent(default)
        signal.throw_if_aborted()
        return await self._drive(agent, task)

    async def _drive(self, agent: Agent, task: str) -> Outcome:
        session, sessions = agent.session, self._ctx[SESSIONS]
        first = session.seq
        with self._app_exit.one_shot():
            agent.followup(create_user_message(task))
            await sessions.flush(session)
            self._output.stored(session)
            await agent.when_idle()
            await sessions.flush(session)
        if self._unprinted is not None:
            raise self._unprinted
        outcome = fold_outcome(session.events[first:])
        if outcome.code == "NO_TURN":
            self._stopping.signal.throw_if_aborted()
        return outcome

    async def _open_agent(self, default: ModelSelection) -> Agent:
        config = self._config
        options = AgentOptions(provider=default.provider, model=default.model)
        state = SelectionState(current=default)

        def setup(agent_ctx: Context) -> None:
            agent = agent_of(agent_ctx)
            if agent is not None and config.session_id and not config.model:
                state.current = _stored_selection(agent) or default
                self._require_ready(state.current.provider)
            install_model_selection(agent_ctx, state)
            agent_ctx.on(SESSION_EVENT, self._on_event)

        agents, signal = self._ctx[AGENTS], self._stopping.signal
        if config.session_id:
            handle = await agents.resume(
                ResumeAgent(
                    session_id=SessionId(config.session_id),
                    agent_options=options,
                    setup=setup,
                    signal=signal,
                )
            )
        else:
            handle = await agents.create(
                CreateAgent(
                    session_id=SessionId(f"session-{uuid.uuid4()}"),
                    agent_options=options,
                    meta=SessionMeta(cwd=os.getcwd()),
                    setup=setup,
                    signal=signal,
                )
            )
        return handle.agent

    def _on_event(self, appended: SessionAppended) -> None:
        if self._unprinted is not None:
            return
        try:
            self._output.event(appended.event)
        except HeadlessError as error:
            self._unprinted = error
            self.stop()

    def _selection(self) -> ModelSelection:
        default = self._ctx[AGENT_DEFAULT_MODEL].current_selection()
        wanted = self._config.model
        if not wanted:
            return default
        provider, slash, model = wanted.partition("/")
        if slash and not (provider and model):
            raise HeadlessError(
                f"{wanted!r} names no model; write MODEL or PROVIDER/MODEL", code="INVALID_MODEL"
            )
        # Model names may hold slashes too, so the part before the first has to be a known route.
        routes = {info.provider for info in self._ctx[LLM].list_providers()}
        if slash and provider in routes:
            return ModelSelection(provider=provider, model=model)
        return ModelSelection(provider=default.provider, model=wanted)

    def _require_ready(self, provider: str) -> None:
        failure = self._ctx[LLM].readiness(provider)
        if failure is not None:
            raise LlmError(failure.message, code=failure.code)


def _stored_selection(agent: Agent) -> ModelSelection | None:
    """The model that the session's latest request used."""
    header = agent.session.request_header()
    if header is None:
        return None
    used, filled = header.config, header.adapter_defaults
    chosen = filled is UNSET or filled.reasoning_effort is UNSET
    effort = used.reasoning_effort if chosen else UNSET
    return ModelSelection(
        provider=used.provider,
        model=used.model,
        reasoning_effort=None if effort is UNSET else effort,
    )


def _require_sound(task: str) -> None:
    if not task.strip():
        raise HeadlessError("the task is blank; say what to do", code="INVALID_TASK")
    if (bad := unsafe_text(task)) is not None:
        raise HeadlessError(
            f"the task holds the character {bad!r}, which no model accepts", code="INVALID_TASK"
        )
