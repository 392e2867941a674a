"""Facts of the moment reach the model as messages, once for each change."""

from __future__ import annotations

import pytest
from dsh_agent_loop_testkit import Call, agent_kit, call_reply
from dsh_llm import PluginSource, create_user_message, text_of
from dsh_session import REQUEST_HEADER, USER_MESSAGE, Replace
from dsh_system_prompt import SYSTEM_PROMPT
from dsh_tools import tool
from msgspec import UNSET

pytestmark = pytest.mark.anyio


class Clock:
    """A context whose text a test sets; empty text is no context."""

    def __init__(self, text):
        self.text = text

    def __call__(self, _context):
        return self.text


def mount(kit, text):
    clock = Clock(text)
    kit.root[SYSTEM_PROMPT].context("clock", order=0, text=clock)
    return clock


def snapshots(kit):
    """Form and text of each message of the prompt service."""
    return [
        (m.source.form, text_of(m.content))
        for m in kit.of(USER_MESSAGE)
        if isinstance(m.source, PluginSource)
    ]


async def test_an_unchanged_context_is_said_once_and_a_changed_one_again():
    async with agent_kit(["1", "2", "3"]) as kit:
        clock = mount(kit, "noon")
        await kit.say("one")
        await kit.say("two")
        clock.text = "midnight"
        await kit.say("three")
        assert [form for form, _ in snapshots(kit)] == ["snapshot", "snapshot"]
        assert "noon" in snapshots(kit)[0][1]
        assert "midnight" in snapshots(kit)[1][1]
        assert len(kit.of(REQUEST_HEADER)) == 1


async def test_the_snapshot_stands_after_the_input_of_its_step():
    async with agent_kit(["1"]) as kit:
        mount(kit, "noon")
        await kit.say("one")
        assert [type(m.source).__name__ for m in kit.of(USER_MESSAGE)] == [
            "UserSource",
            "PluginSource",
        ]


async def test_a_context_that_goes_away_is_taken_back_once():
    async with agent_kit(["1", "2", "3"]) as kit:
        clock = mount(kit, "noon")
        await kit.say("one")
        clock.text = ""
        await kit.say("two")
        await kit.say("three")
        assert [form for form, _ in snapshots(kit)] == ["snapshot", UNSET]
        assert "No runtime context" in snapshots(kit)[1][1]


async def test_without_any_context_nothing_is_said():
    async with agent_kit(["1"]) as kit:
        mount(kit, "")
        await kit.say("one")
        assert snapshots(kit) == []


async def test_a_change_between_steps_reaches_the_next_request():
    @tool
    async def wait() -> str:
        """Wait until midnight."""
        clock.text = "midnight"
        return "ok"

    async with agent_kit([call_reply(Call("wait")), "done"], tools=[wait]) as kit:
        clock = mount(kit, "noon")
        await kit.say("hi")
        assert "midnight" in text_of(kit.adapter.requests[1].messages[-1].content)


async def test_a_compacted_snapshot_is_shown_again():
    async with agent_kit(["1", "2", "3"]) as kit:
        clock = mount(kit, "noon")
        await kit.say("one")
        shown = [e.seq for e in kit.session.events if USER_MESSAGE.of(e)]
        kit.session.append(
            USER_MESSAGE,
            create_user_message("summary"),
            surface_op=Replace(shown[0], shown[1]),
            source_event_seqs=shown,
        )
        await kit.say("two")
        assert len(snapshots(kit)) == 2
        assert len(kit.of(REQUEST_HEADER)) == 1
        clock.text = ""
        await kit.say("three")
        assert snapshots(kit)[-1][0] is UNSET


async def test_a_resumed_agent_knows_what_was_said():
    async with agent_kit(["1"]) as first:
        mount(first, "noon")
        await first.say("one")
        seed = first.session.events
    async with agent_kit(["2"], seed=seed) as kit:
        mount(kit, "noon")
        await kit.say("two")
        assert len(snapshots(kit)) == 1


async def test_a_malformed_snapshot_never_matches():
    async with agent_kit(["1"]) as kit:
        mount(kit, "noon")
        source = PluginSource("dsh-system-prompt", form="snapshot")
        kit.session.append(
            USER_MESSAGE, create_user_message("noon", source=source), surface_op="append"
        )
        await kit.say("one")
        assert len(snapshots(kit)) == 2


async def test_suppressed_contexts_are_neither_asked_nor_said():
    asked = []

    def clock(_context):
        asked.append(True)
        return "noon"

    async with agent_kit(["1"]) as kit:
        kit.root[SYSTEM_PROMPT].context("clock", order=0, text=clock)
        kit.root[SYSTEM_PROMPT].suppress_runtime_context()
        await kit.say("one")
        assert (asked, snapshots(kit)) == ([], [])
