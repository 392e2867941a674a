"""How agents come to be and how they end: all of it, or nothing."""

from __future__ import annotations

import math

import anyio
import pytest
from dsh_agent import (
    AGENT_CREATED,
    AGENT_DISPOSED,
    AGENT_SESSION_START,
    AGENTS,
    INBOX_SPLICED,
    AgentError,
    AgentOptions,
    CreateAgent,
    ResumeAgent,
)
from dsh_agent_loop import AGENT_LOOP, AgentLoop
from dsh_agent_loop_testkit import (
    Call,
    ScriptedAdapter,
    agent_kit,
    assert_no_leaks,
    call_reply,
    mount_agent_services,
)
from dsh_cordis import AbortController, AbortedError, Context, CordisError
from dsh_llm import LLM, create_user_message, text_of
from dsh_session import (
    END_SEED,
    SESSION_CREATED,
    SESSION_DISPOSED,
    SESSION_EVENT,
    SESSIONS,
    TOOL_RESULT,
    TURN_END,
    TURN_START,
    SessionError,
    SessionMeta,
    TurnInterrupted,
)
from dsh_session_persistence import SESSION_PERSISTENCE, SessionPersistenceError
from dsh_session_persistence_jsonl import JsonlSessionPersistence
from dsh_tools import tool

pytestmark = pytest.mark.anyio

OPTIONS = AgentOptions(provider="scripted", model="scripted-1")


@pytest.fixture
async def root():
    async with Context() as ctx:
        await mount_agent_services(ctx)
        yield ctx


def create(name="a", **fields):
    return CreateAgent(session_id=name, agent_options=OPTIONS, **fields)


def record(root):
    """The life of every agent and session, in order."""
    heard = []
    for name, key in (
        ("session created", SESSION_CREATED),
        ("agent created", AGENT_CREATED),
        ("agent started", AGENT_SESSION_START),
        ("agent disposed", AGENT_DISPOSED),
        ("session disposed", SESSION_DISPOSED),
    ):
        root.on(key, lambda _, name=name: heard.append(name))
    return heard


def empty(root):
    return root[AGENTS].list() == () and root[SESSIONS].list() == ()


async def test_an_agent_is_composed_unseen_and_then_announced_in_order(root):
    heard = record(root)
    root.on(SESSION_CREATED, lambda s: heard.append(root[AGENTS].get(s.id) is not None))

    class Commit:
        def commit(self):
            assert empty(root)
            heard.append("commit")

    async def setup(ctx):
        await anyio.lowlevel.checkpoint()
        assert empty(root)
        heard.append("setup")
        return Commit()

    handle = await root[AGENTS].create(create(setup=setup))
    assert heard == [
        "setup",
        "commit",
        "session created",
        True,
        "agent created",
        "agent started",
    ]
    assert root[AGENTS].get("a") is handle.agent
    assert handle.agent.options is OPTIONS


@pytest.mark.parametrize("stage", ["setup", "commit"])
async def test_a_failing_composition_announces_nothing_and_frees_the_id(root, stage):
    heard = record(root)

    class Broken:
        def commit(self):
            raise ValueError("commit")

    async def setup(ctx):
        if stage == "setup":
            raise ValueError("setup")
        return Broken()

    with pytest.raises(ValueError, match=stage):
        await root[AGENTS].create(create(setup=setup))
    assert heard == []
    assert empty(root)
    await root[AGENTS].create(create())


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (SESSION_CREATED, ["session created", "session disposed"]),
        (
            AGENT_CREATED,
            ["session created", "agent created", "agent disposed", "session disposed"],
        ),
    ],
)
async def test_a_veto_undoes_exactly_what_was_announced(root, key, expected):
    heard = record(root)

    def veto(_):
        raise ValueError("no")

    root.on(key, veto)
    with pytest.raises(ValueError, match="no"):
        await root[AGENTS].create(create())
    assert heard == expected
    assert empty(root)


async def test_a_failing_start_listener_is_contained_but_a_disposal_by_it_rejects(root):
    def broken(_):
        raise ValueError("observer")

    root.on(AGENT_SESSION_START, broken)
    await root[AGENTS].create(create("a"))

    owner = await root.plugin(lambda ctx, _config: None, inject=[AGENTS])
    root.once(AGENT_SESSION_START, lambda _: owner.dispose())
    with pytest.raises(CordisError):
        await owner.ctx[AGENTS].create(create("b"))
    assert root[AGENTS].get("b") is None


async def test_an_agent_takes_input_as_soon_as_it_is_announced_as_started(root):
    root[LLM].register_adapter(["scripted"], ScriptedAdapter(["hello"]))
    root.on(AGENT_SESSION_START, lambda p: p.agent.followup(create_user_message("hi")))
    agent = (await root[AGENTS].create(create())).agent
    assert agent.status == "running"
    await agent.when_idle()
    assert text_of(agent.session.derive_messages()[-1].content) == "hello"


async def test_an_abort_stops_a_creation_and_means_nothing_afterwards(root):
    aborted = AbortController()
    aborted.abort("x")
    with pytest.raises(AbortedError) as caught:
        await root[AGENTS].create(create(signal=aborted.signal))
    assert caught.value.reason == "x"
    late = AbortController()
    handle = await root[AGENTS].create(create(signal=late.signal))
    late.abort(ValueError("late"))
    await anyio.wait_all_tasks_blocked()
    assert root[AGENTS].get("a") is handle.agent


async def test_an_abort_during_setup_gives_the_setup_up_and_raises_its_own_reason(root):
    controller = AbortController()
    left = []

    async def setup(ctx):
        try:
            controller.abort(ValueError("enough"))
            await anyio.sleep_forever()
        finally:
            left.append(True)

    with pytest.raises(ValueError, match="enough"):
        await root[AGENTS].create(create(setup=setup, signal=controller.signal))
    assert left == [True]
    assert empty(root)


@pytest.mark.parametrize("who", ["owner", "loop"])
async def test_an_unload_during_setup_rejects_and_publishes_nothing(who):
    async with assert_no_leaks(), Context() as root:
        await mount_agent_services(root)
        heard = record(root)
        owner = await root.plugin(lambda ctx, _config: None, inject=[AGENTS])
        entered = anyio.Event()
        raised = []

        async def setup(ctx):
            entered.set()
            await anyio.sleep_forever()

        async def making():
            try:
                await owner.ctx[AGENTS].create(create(setup=setup))
            except CordisError as error:
                raised.append(error.code)

        async with anyio.create_task_group() as group:
            group.start_soon(making)
            await entered.wait()
            await (owner.dispose() if who == "owner" else loop_of(root).dispose())
        assert raised == ["AGENT_DISPOSED"]
        assert heard == []


def loop_of(root):
    """The fiber of the loop."""
    return root.get(AGENT_LOOP).own.fiber


async def test_entries_stay_until_the_scopes_own_cleanup_has_ended(root):
    door = anyio.Event()
    heard = record(root)
    handle = await root[AGENTS].create(create())
    heard.clear()
    cleaning = anyio.Event()

    async def cleanup():
        cleaning.set()
        await door.wait()
        heard.append("scope cleaned")

    handle.agent.ctx.effect(lambda: cleanup)
    root.on(AGENT_DISPOSED, lambda _: heard.append(root[SESSIONS].get("a") is not None))
    async with anyio.create_task_group() as group:
        group.start_soon(handle.dispose)
        await cleaning.wait()
        assert root[AGENTS].get("a") is handle.agent
        door.set()
    assert heard == ["scope cleaned", "agent disposed", True, "session disposed"]
    await root[AGENTS].create(create())


async def test_every_disposal_waits_for_the_same_end(root):
    handle = await root[AGENTS].create(create())
    door = anyio.Event()
    handle.agent.ctx.effect(lambda: door.wait)
    ended = []

    async def dispose():
        await handle.dispose()
        ended.append(root[AGENTS].get("a"))

    async with anyio.create_task_group() as group:
        group.start_soon(dispose)
        group.start_soon(dispose)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        door.set()
    assert ended == [None, None]
    await handle.dispose()


@pytest.mark.parametrize("limit", [0, -1, 1.5, math.nan, 2**53, True])
async def test_an_unusable_output_limit_is_refused_before_anything_exists(root, limit):
    options = AgentOptions(provider="p", model="m", max_tokens=limit)
    with pytest.raises(TypeError, match="max_tokens"):
        await root[AGENTS].create(CreateAgent(session_id="a", agent_options=options))
    assert empty(root)


async def test_one_of_several_creations_of_an_id_is_published(root):
    results = []

    async def make():
        try:
            results.append(await root[AGENTS].create(create(setup=pause)))
        except (SessionError, AgentError) as error:
            results.append(error.code)

    async def pause(ctx):
        await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(make)
    assert len(root[AGENTS].list()) == 1
    assert sorted(r for r in results if isinstance(r, str)) == ["SESSION_EXISTS"] * 2


async def test_an_agent_ends_with_its_owner_and_a_child_with_its_parent(root):
    owner = await root.plugin(lambda ctx, _config: None, inject=[AGENTS])
    parent = (await owner.ctx[AGENTS].create(create("parent"))).agent
    seen = []

    async def setup(ctx):
        seen.append(root[AGENTS].current_initiator())

    await root[AGENTS].with_initiator(
        parent, lambda: parent.ctx[AGENTS].create(create("child", setup=setup))
    )
    assert seen == [parent]
    assert root[AGENTS].roots() == (parent,)
    await owner.dispose()
    assert empty(root)


async def test_a_disposed_agent_takes_neither_input_nor_registrations(root):
    handle = await root[AGENTS].create(create())
    agent = handle.agent
    agent.inject(create_user_message("parked"))
    await handle.dispose()
    last = agent.session.events[-1]
    assert INBOX_SPLICED.of(last)
    assert last.data.outcome == "canceled"
    with pytest.raises(AgentError) as caught:
        agent.followup(create_user_message("late"))
    assert caught.value.code == "AGENT_DISPOSED"
    with pytest.raises(CordisError) as caught:
        agent.ctx.on(AGENT_CREATED, print)
    assert caught.value.code == "INACTIVE_EFFECT"


async def test_a_turn_cannot_await_its_own_agents_end():
    codes = []

    @tool
    async def leave() -> str:
        """Leave."""
        try:
            await kit.handle.dispose()
        except AgentError as error:
            codes.append(error.code)
        return "stayed"

    async with agent_kit([call_reply(Call("leave")), "done"], tools=[leave]) as kit:
        assert await kit.say("hi") == "done"
        assert codes == ["SELF_DISPOSAL"]


async def test_the_loops_unload_ends_running_agents_with_closed_turns():
    entered = anyio.Event()

    async def hang(options):
        entered.set()
        async with options.signal.scope():
            await anyio.sleep_forever()

    async with assert_no_leaks(), agent_kit([hang]) as kit:
        kit.agent.followup(create_user_message("hi"))
        await entered.wait()
        await loop_of(kit.root).dispose()
        assert kit.logged()[-2:] == ["step/end", "turn/end"]
        assert empty(kit.root)


async def test_an_agents_own_context_hears_its_session_alone(root):
    one = (await root[AGENTS].create(create("one"))).agent
    two = (await root[AGENTS].create(create("two"))).agent
    heard = []
    one.ctx.on(SESSION_EVENT, lambda appended: heard.append(appended.session.id))
    two.inject(create_user_message("x"))
    one.inject(create_user_message("y"))
    assert heard == ["one"]


async def test_resuming_needs_a_store_and_an_id_that_is_not_live(root, tmp_path):
    resume = ResumeAgent(session_id="a", agent_options=OPTIONS)
    with pytest.raises(AgentError) as caught:
        await root[AGENTS].resume(resume)
    assert caught.value.code == "NO_PERSISTENCE"
    await root.plugin(JsonlSessionPersistence, {"root": str(tmp_path)})
    with pytest.raises(SessionPersistenceError):
        await root[AGENTS].resume(resume)
    await root[AGENTS].create(create())
    with pytest.raises(AgentError) as caught:
        await root[AGENTS].resume(resume)
    assert caught.value.code == "ID_TAKEN"


async def test_a_resumed_agent_goes_on_where_it_was(tmp_path):
    meta = SessionMeta(cwd=str(tmp_path), delegation_depth=2)
    async with Context() as root:
        await mount_agent_services(root)
        await root.plugin(JsonlSessionPersistence, {"root": str(tmp_path)})
        root[LLM].register_adapter(["scripted"], ScriptedAdapter(["one"]))
        agent = (await root[AGENTS].create(create(meta=meta))).agent
        agent.followup(create_user_message("hi"))
        await agent.when_idle()
        await root[SESSIONS].flush(agent.session)
    async with assert_no_leaks(), Context() as root:
        await mount_agent_services(root)
        await root.plugin(JsonlSessionPersistence, {"root": str(tmp_path)})
        adapter = ScriptedAdapter(["two"])
        root[LLM].register_adapter(["scripted"], adapter)
        sources = []
        root.on(AGENT_SESSION_START, lambda p: sources.append(p.source))
        resume = ResumeAgent(session_id="a", agent_options=OPTIONS)
        session = (await root[AGENTS].resume(resume)).agent.session
        assert sources == ["resume"]
        assert session.header.delegation_depth == 2
        assert END_SEED.of(session.events[-1])
        root[AGENTS].get("a").followup(create_user_message("again"))
        await root[AGENTS].get("a").when_idle()
        turns = [e.data.turn for e in session.events if TURN_START.of(e)]
        assert turns == [1, 2]
        assert [text_of(m.content) for m in adapter.requests[0].messages] == ["hi", "one", "again"]


async def test_a_session_killed_inside_a_tool_can_go_on(tmp_path):
    """What a killed process leaves: two calls asked for, one of them started."""

    @tool
    async def die() -> str:
        """Remember the log as a kill would leave it."""
        crashed.append(kit.session.events)
        return "too late"

    crashed = []
    reply = call_reply(Call("die", id="c1"), Call("die", id="c2"))
    async with agent_kit([reply, "x"], tools=[die]) as kit:
        await kit.say("hi")
    header = kit.session.header
    async with Context() as root:
        await mount_agent_services(root)
        await root.plugin(JsonlSessionPersistence, {"root": str(tmp_path)})
        persistence = root[SESSION_PERSISTENCE]
        await persistence.create(header)
        await persistence.append(header.id, crashed[0])
        adapter = ScriptedAdapter(["ok"])
        root[LLM].register_adapter(["scripted"], adapter)
        agent = (
            await root[AGENTS].resume(ResumeAgent(session_id=header.id, agent_options=OPTIONS))
        ).agent
        agent.followup(create_user_message("go on"))
        await agent.when_idle()
        ends = [e.data.reason for e in agent.session.events if TURN_END.of(e)]
        assert isinstance(ends[0], TurnInterrupted)
        codes = [e.data.error.code for e in agent.session.events if TOOL_RESULT.of(e)]
        assert codes == ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]
        sources = [m.source for m in adapter.requests[0].messages]
        assert [s.call_id for s in sources if hasattr(s, "call_id")] == ["c1", "c2"]


async def test_mounting_the_loop_again_makes_agents_again(root):
    await loop_of(root).dispose()
    with pytest.raises(AgentError) as caught:
        await root[AGENTS].create(create())
    assert caught.value.code == "NO_FACTORY"
    await root.plugin(AgentLoop)
    await root[AGENTS].create(create())
