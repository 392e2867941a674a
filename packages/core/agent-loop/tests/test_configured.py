"""Agents that are there from the start, and what prompts know of them."""

from __future__ import annotations

import anyio
import pytest
from dsh_agent import AGENTS, AgentOptions, CreateAgent
from dsh_agent_loop import (
    AGENT_LOOP,
    CONFIG_START_FAILED,
    AgentLoop,
    AgentLoopConfig,
    ConfiguredAgent,
)
from dsh_agent_loop_testkit import ScriptedAdapter, agent_kit, mount_agent_services
from dsh_cordis import ConfigError, Context
from dsh_llm import LLM, create_user_message
from dsh_session import SESSIONS, TURN_START, SessionMeta
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_system_prompt import SystemPromptConfig

pytestmark = pytest.mark.anyio

MODEL = {"provider": "scripted", "model": "scripted-1"}


async def mounted(root, *agents, store=None):
    """Mount everything, the store (if any) before the loop."""
    await mount_agent_services(root)
    await root.get(AGENT_LOOP).own.fiber.dispose()
    if store is not None:
        await root.plugin(JsonlSessionPersistence, {"root": str(store)})
    root[LLM].register_adapter(["scripted"], ScriptedAdapter(["one", "two"]))
    await root.plugin(AgentLoop, {"agents": list(agents)})


async def first_agent(root):
    """The first agent, as soon as it is there."""
    while not root[AGENTS].list():
        await anyio.lowlevel.checkpoint()
    return root[AGENTS].list()[0]


async def test_a_label_begins_the_id_of_a_new_session_each_time(tmp_path):
    ids = []
    for _ in range(2):
        async with Context() as root:
            await mounted(root, {"id": "cfg", "cwd": str(tmp_path), "maxTokens": 5, **MODEL})
            (agent,) = root[AGENTS].list()
            ids.append(agent.id)
            assert agent.options == AgentOptions(max_tokens=5, **MODEL)
            assert agent.session.header.cwd == str(tmp_path)
    assert all(one.startswith("cfg-session-") for one in ids)
    assert len(set(ids)) == 2


async def test_an_exact_session_is_created_first_and_resumed_later(tmp_path):
    for turns in (1, 2):
        async with Context() as root:
            await mounted(root, {"id": "cfg", "sessionId": "mine", **MODEL}, store=tmp_path)
            agent = await first_agent(root)
            assert agent.id == "mine"
            agent.followup(create_user_message("hi"))
            await agent.when_idle()
            await root[SESSIONS].flush(agent.session)
            assert len([e for e in agent.session.events if TURN_START.of(e)]) == turns


async def test_an_exact_session_without_a_store_is_created():
    async with Context() as root:
        await mounted(root, {"id": "cfg", "sessionId": "mine", **MODEL})
        assert [agent.id for agent in root[AGENTS].list()] == ["mine"]


async def test_a_session_to_resume_waits_for_its_store_and_must_be_there(tmp_path):
    async with Context() as root:
        await mounted(root, {"id": "cfg", "resumeSessionId": "gone", **MODEL})
        failures = []
        told = anyio.Event()

        def note(failed):
            failures.append(failed)
            told.set()

        root.on(CONFIG_START_FAILED, note)
        assert root[AGENTS].list() == ()
        await root.plugin(JsonlSessionPersistence, {"root": str(tmp_path)})
        await told.wait()
        assert failures[0].session_id == "gone"
        assert failures[0].error.code == "SESSION_NOT_FOUND"
        assert root[AGENTS].list() == ()


@pytest.mark.parametrize(
    "agents",
    [
        [{"id": "a", "sessionId": "x", "resumeSessionId": "x"}],
        [{"id": "a", "sessionId": "x"}, {"id": "b", "resumeSessionId": "x"}],
        [{"id": "a", "sessionId": ""}],
        [{"id": "a", "maxTokens": 0}],
        [{"id": ""}],
    ],
)
async def test_ambiguous_agents_are_refused_when_the_loop_loads(agents):
    async with Context() as root:
        await mount_agent_services(root)
        await root.get(AGENT_LOOP).own.fiber.dispose()
        with pytest.raises(ConfigError):
            await root.plugin(AgentLoop, {"agents": agents})


async def test_a_limit_below_one_is_refused():
    async with Context() as root:
        await mount_agent_services(root)
        await root.get(AGENT_LOOP).own.fiber.dispose()
        with pytest.raises(ConfigError):
            await root.plugin(AgentLoop, {"maxParallelToolCalls": 0})


async def test_an_empty_session_to_resume_is_absent():
    config = AgentLoopConfig(agents=(ConfiguredAgent(id="a", resume_session_id=""),))
    async with Context() as root:
        await mount_agent_services(root, loop=config)
        assert root[AGENTS].list()[0].id.startswith("a-session-")


async def test_prompts_know_the_agents_model_and_directory(tmp_path):
    prompt = SystemPromptConfig(persona="{{provider}} {{model}} {{cwd}}")
    meta = SessionMeta(cwd=str(tmp_path))
    async with agent_kit(["hello"], prompt=prompt, meta=meta) as kit:
        await kit.say("hi")
        assert kit.adapter.requests[0].system.endswith(f"scripted scripted-1 {tmp_path}")


async def test_a_directory_that_a_session_lacks_fails_the_prompt_that_names_it():
    async with agent_kit(["hello"], prompt=SystemPromptConfig(persona="{{cwd}}")) as kit:
        kit.agent.followup(create_user_message("hi"))
        await kit.agent.when_idle()
        assert kit.adapter.requests == []


async def test_many_agents_run_side_by_side():
    async with agent_kit() as kit:
        for _ in range(60):
            kit.adapter.add("one two three")
        agents = [
            (
                await kit.root[AGENTS].create(
                    CreateAgent(session_id=f"agent-{n}", agent_options=AgentOptions(**MODEL))
                )
            ).agent
            for n in range(20)
        ]
        for agent in agents:
            for text in ("a", "b", "c"):
                agent.followup(create_user_message(text))
        for agent in agents:
            await agent.when_idle()
        assert [len([e for e in a.session.events if TURN_START.of(e)]) for a in agents] == [3] * 20
