"""An agent on a real kernel with real services; only the model is scripted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dsh_agent import AGENTS, AgentHandle, AgentOptions, AgentRegistry, CreateAgent
from dsh_agent_loop import AgentLoop, AgentLoopConfig
from dsh_cordis import Context, CordisError
from dsh_llm import LLM, LlmRuntime, SessionId, create_user_message, text_of
from dsh_session import ASSISTANT_MESSAGE, TURN_END, SessionStore, TurnCompleted
from dsh_system_prompt import SystemPrompt, SystemPromptConfig
from dsh_tools import TOOLS, ToolRegistry

from ._script import Reply, ScriptedAdapter

if TYPE_CHECKING:
    from dsh_agent import Agent, Setup
    from dsh_llm import ModelInfo
    from dsh_session import AnyEvent, Session, SessionEventType, SessionMeta, TurnEndReason
    from dsh_tools import ToolDefinition

D = TypeVar("D")

PROVIDER = "scripted"
MODEL = "scripted-1"


class TurnEndedError(CordisError):
    """A turn that a test wanted completed ended otherwise; `reason` says how."""

    reason: TurnEndReason

    def __init__(self, reason: TurnEndReason) -> None:
        super().__init__(f"the turn ended with {reason}", code="TURN_NOT_COMPLETED")
        self.reason = reason


@dataclass(slots=True)
class AgentKit:
    """A running agent and what it runs on."""

    root: Context
    adapter: ScriptedAdapter
    handle: AgentHandle

    @property
    def agent(self) -> Agent:
        """The agent."""
        return self.handle.agent

    @property
    def session(self) -> Session:
        """Its session."""
        return self.handle.agent.session

    async def say(self, text: str) -> str:
        """Send `text` as a person would, wait for the agent to rest, return its last words.

        Raises `TurnEndedError` unless the last turn completed.
        """
        start = self.session.seq
        self.agent.followup(create_user_message(text))
        await self.agent.when_idle()
        return final_text(self.session, start)

    def of(self, key: SessionEventType[D]) -> list[D]:
        """The payloads of every logged event of one type, in order."""
        return [event.data for event in self.session.events if key.of(event)]

    def logged(self, *skip: str) -> list[str]:
        """The types in the session's log, chunks and those of `skip` left out."""
        left_out = {"assistant/chunk", *skip}
        return [event.type for event in self.session.events if event.type not in left_out]


def final_text(session: Session, start: int = 0) -> str:
    """The last words of the last turn that ended at or after seq `start`.

    Raises `TurnEndedError` unless that turn completed, `ValueError` if none ended.
    """
    reason: TurnEndReason | None = None
    text = ""
    for seq in range(start, session.seq):
        event = session.events[seq]
        if ASSISTANT_MESSAGE.of(event):
            text = text_of(event.data.message.content) or text
        elif TURN_END.of(event):
            reason = event.data.reason
    if reason is None:
        raise ValueError("no turn has ended")
    if not isinstance(reason, TurnCompleted):
        raise TurnEndedError(reason)
    return text


async def mount_agent_services(
    root: Context,
    *,
    loop: AgentLoopConfig | None = None,
    prompt: SystemPromptConfig | None = None,
) -> None:
    """Mount sessions, models, prompt, tools, agents and the loop below `root`."""
    await root.plugin(SessionStore)
    await root.plugin(LlmRuntime)
    await root.plugin(SystemPrompt, prompt)
    await root.plugin(ToolRegistry)
    await root.plugin(AgentRegistry)
    await root.plugin(AgentLoop, loop)


@asynccontextmanager
async def agent_kit(
    replies: Iterable[Reply] = (),
    *,
    tools: Iterable[ToolDefinition] = (),
    plugins: Iterable[object] = (),
    options: AgentOptions | None = None,
    models: Iterable[ModelInfo] = (),
    session_id: str = "kit",
    seed: Iterable[AnyEvent] | None = None,
    meta: SessionMeta | None = None,
    setup: Setup | None = None,
    loop: AgentLoopConfig | None = None,
    prompt: SystemPromptConfig | None = None,
) -> AsyncGenerator[AgentKit]:
    """An agent whose model answers with `replies`; everything is disposed at the end.

    `tools` and `plugins` are there before the agent. `options` default to the scripted model.
    """
    async with Context() as root:
        await mount_agent_services(root, loop=loop, prompt=prompt)
        adapter = ScriptedAdapter(replies, models=models)
        root[LLM].register_adapter([PROVIDER], adapter)
        for definition in tools:
            root[TOOLS].register(definition)
        for plugin in plugins:
            await root.plugin(plugin)
        create = CreateAgent(
            session_id=SessionId(session_id),
            agent_options=options or AgentOptions(provider=PROVIDER, model=MODEL),
            seed=None if seed is None else tuple[Any, ...](seed),
            meta=meta,
            setup=setup,
        )
        yield AgentKit(root, adapter, await root[AGENTS].create(create))
