"""Who is listed, who is told, and who may veto."""

from __future__ import annotations

import logging

import anyio
import pytest
from dsh_agent import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENTS,
    AgentError,
    AgentRegistry,
    CreateAgent,
    agent_of,
)
from dsh_cordis import Context

pytestmark = pytest.mark.anyio


def code(caught):
    return caught.value.code


async def test_roots_leave_out_what_an_agent_owns(root, factory, session_id):
    root[AGENTS].set_factory(factory)
    parent = (await root[AGENTS].create(CreateAgent(session_id="parent"))).agent
    child = (await parent.ctx.get(AGENTS).create(CreateAgent(session_id="child"))).agent
    assert root[AGENTS].list() == (parent, child)
    assert root[AGENTS].roots() == (parent,)
    assert root[AGENTS].is_owned_by("child", parent)
    assert not root[AGENTS].is_owned_by("parent", child)


async def test_a_raising_creation_listener_vetoes_and_is_paired_with_a_disposal(root, agent):
    heard = []

    def refuse(payload):
        raise ValueError("no")

    root.on(AGENT_CREATED, lambda p: heard.append("created"))
    root.on(AGENT_DISPOSED, lambda p: heard.append("disposed"))
    root.on(AGENT_CREATED, refuse)
    with pytest.raises(ValueError, match="no"):
        root[AGENTS].register(agent)
    assert heard == ["created", "disposed"]
    assert root[AGENTS].list() == ()


async def test_an_asynchronous_failure_of_a_creation_listener_is_only_logged(root, agent, caplog):
    failed = anyio.Event()

    async def late(payload):
        failed.set()
        raise ValueError("too late")

    root.on(AGENT_CREATED, late)
    with caplog.at_level(logging.WARNING, "dsh"):
        root[AGENTS].register(agent)
        await failed.wait()
        await anyio.wait_all_tasks_blocked()
    assert root[AGENTS].get(agent.id) is agent
    assert len(caplog.records) == 1


async def test_leaving_inside_the_announcement_waits_until_all_have_heard(root, agent):
    heard = []
    detach = root[AGENTS].enter(agent, None)
    root.on(AGENT_CREATED, lambda p: detach())
    root.on(AGENT_CREATED, lambda p: heard.append(root[AGENTS].get(agent.id)))
    root.on(AGENT_DISPOSED, lambda p: heard.append("disposed"))
    root[AGENTS].announce(agent)
    assert heard == [agent, "disposed"]
    assert root[AGENTS].get(agent.id) is None


async def test_an_agent_that_was_never_announced_is_silent(root, agent):
    heard = []
    root.on(AGENT_DISPOSED, heard.append)
    root[AGENTS].enter(agent, None)()
    assert heard == []


async def test_ids_are_unique_and_those_of_their_sessions(root, agent, new_agent):
    root[AGENTS].enter(agent, None)
    with pytest.raises(AgentError) as caught:
        root[AGENTS].enter(agent, None)
    assert code(caught) == "ID_TAKEN"
    other = new_agent("other")
    other.id = "mismatch"
    with pytest.raises(AgentError) as caught:
        root[AGENTS].enter(other, None)
    assert code(caught) == "ID_MISMATCH"


async def test_only_an_entered_agent_can_be_announced_and_only_once(root, agent):
    with pytest.raises(AgentError) as caught:
        root[AGENTS].announce(agent)
    assert code(caught) == "NOT_ENTERED"
    root[AGENTS].register(agent)
    with pytest.raises(AgentError) as caught:
        root[AGENTS].announce(agent)
    assert code(caught) == "ALREADY_ANNOUNCED"


async def test_a_stale_detach_leaves_a_later_agent_of_that_id(root, agent):
    detach = root[AGENTS].enter(agent, None)
    detach()
    root[AGENTS].enter(agent, None)
    detach()
    assert root[AGENTS].get(agent.id) is agent


async def test_a_registration_leaves_with_its_caller(root, agent):
    async def caller(ctx, _config):
        ctx[AGENTS].register(agent)

    fiber = await root.plugin(caller, inject=[AGENTS])
    assert root[AGENTS].list() == (agent,)
    await fiber.dispose()
    assert root[AGENTS].list() == ()


async def test_creating_needs_a_factory_that_still_lives(root, factory, session_id):
    with pytest.raises(AgentError) as caught:
        await root[AGENTS].create(CreateAgent(session_id=session_id))
    assert code(caught) == "NO_FACTORY"

    async def maker(ctx, _config):
        ctx[AGENTS].set_factory(factory)

    fiber = await root.plugin(maker, inject=[AGENTS])
    await root[AGENTS].create(CreateAgent(session_id=session_id))
    with pytest.raises(AgentError) as caught:
        root[AGENTS].set_factory(factory)
    assert code(caught) == "FACTORY_TAKEN"
    await fiber.dispose()
    with pytest.raises(AgentError) as caught:
        await root[AGENTS].create(CreateAgent(session_id="again"))
    assert code(caught) == "NO_FACTORY"


async def test_a_context_knows_the_agent_whose_scope_it_stands_in(root, agent):
    assert agent_of(root) is None
    assert agent_of(agent.ctx) is agent
    assert agent_of(agent.ctx.extend(x=1)) is agent


async def test_agent_events_reach_the_agents_own_scope_and_not_its_neighbours(
    root, agent, new_agent
):
    other = new_agent("other")
    heard = []
    agent.ctx.on(AGENT_CREATED, lambda p: heard.append("own"))
    other.ctx.on(AGENT_CREATED, lambda p: heard.append("neighbour"))
    root.on(AGENT_CREATED, lambda p: heard.append("global"))
    root[AGENTS].register(agent)
    assert heard == ["own", "global"]


async def test_nested_cleared_and_failing_work_restore_the_outer_initiator(root, agent, new_agent):
    agents, inner = root[AGENTS], new_agent("inner")

    async def fails():
        raise ValueError("inner")

    async def outer():
        assert agents.with_initiator(inner, agents.current_initiator) is inner
        assert agents.without_initiator(agents.current_initiator) is None
        with pytest.raises(ValueError, match="inner"):
            await agents.with_initiator(inner, fails)
        with pytest.raises(ZeroDivisionError):
            agents.with_initiator(inner, lambda: 1 / 0)
        return agents.require_initiator()

    assert await agents.with_initiator(agent, outer) is agent
    assert agents.current_initiator() is None
    with pytest.raises(AgentError) as caught:
        agents.require_initiator()
    assert code(caught) == "NO_INITIATOR"


async def test_overlapping_chains_keep_their_own_initiator(root, agent, new_agent):
    agents, other = root[AGENTS], new_agent("other")
    seen = []

    async def chain(expected):
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
            seen.append(agents.current_initiator() is expected)

    async with anyio.create_task_group() as group:
        for one in (agent, other):
            group.start_soon(lambda one=one: agents.with_initiator(one, lambda: chain(one)))
    assert seen == [True] * 6


async def test_a_chain_may_end_the_registry_and_outsiders_cannot_read_it_then(agent):
    async with Context() as root:
        fiber = await root.plugin(AgentRegistry)
        agents = root[AGENTS]

        async def ends_it():
            await fiber.dispose()
            return agents.current_initiator()

        assert await agents.with_initiator(agent, ends_it) is agent
        with pytest.raises(AgentError) as caught:
            agents.current_initiator()
        assert code(caught) == "REGISTRY_DISPOSED"
