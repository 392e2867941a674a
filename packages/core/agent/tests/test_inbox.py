"""What waits in an inbox, and how its log tells it."""

from __future__ import annotations

import math

import msgspec
import pytest
from dsh_agent import (
    AGENT_INBOX_CLAIMED,
    AGENT_INBOX_DISCARDED,
    AGENT_INBOX_INSERTED,
    INBOX_SPLICED,
    AgentError,
    Inbox,
)
from dsh_llm import TextBlock, create_user_message
from dsh_session import SESSION_EVENT, SESSIONS, Session, SessionError, SessionMeta
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio


def message(text="hi"):
    return create_user_message(text)


def splices(session):
    return [msgspec.json.decode(e.raw) for e in session.events if INBOX_SPLICED.of(e)]


async def test_a_followup_and_its_claim_are_two_splices(agent):
    one = message()
    agent.followup(one)
    assert agent.inbox.claim("next-turn", 1) == (one,)
    inserted, claimed = splices(agent.session)
    assert inserted["inserted"][0]["id"] == one.id
    assert {k: inserted[k] for k in ("target", "start")} == {"target": "next-turn", "start": 0}
    assert "removedCount" not in inserted
    assert claimed == {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}


async def test_clearing_cancels_the_step_list_first_and_only_lists_that_held_something(agent):
    agent.followup(message())
    agent.inject(message())
    agent.inbox.clear()
    first, second = splices(agent.session)[2:]
    assert (first["target"], first["outcome"]) == ("next-step", "canceled")
    assert (second["target"], second["outcome"]) == ("next-turn", "canceled")
    agent.inbox.clear()
    assert len(splices(agent.session)) == 4


async def test_a_message_waits_in_one_list_only(agent):
    one = message()
    agent.followup(one)
    with pytest.raises(AgentError) as caught:
        agent.inject(one)
    assert caught.value.code == "DUPLICATE_MESSAGE"
    assert agent.inbox.next_step == ()


async def test_replacing_or_removing_an_unknown_message_says_no(agent):
    assert agent.inbox.replace(message().id, message()) is False
    assert agent.inbox.remove(message().id) is False
    assert agent.session.seq == 0


async def test_positions_are_normalized(agent):
    a, b = message("a"), message("b")
    agent.inbox.splice("next-turn", math.nan, math.nan, [a, b])
    assert agent.inbox.next_turn == (a, b)
    assert splices(agent.session)[0]["start"] == 0
    assert agent.inbox.splice("next-turn", -1, 1, []) == (b,)
    assert agent.inbox.splice("next-turn", 99, math.inf) == ()
    agent.inbox.splice("next-turn", -math.inf, 0, [b])
    assert agent.inbox.next_turn == (b, a)


async def test_a_replacement_is_one_canceled_splice_and_two_notices(agent, root):
    heard = []
    root.on(AGENT_INBOX_INSERTED, lambda p: heard.append(("inserted", p.message)))
    root.on(AGENT_INBOX_DISCARDED, lambda p: heard.append(("discarded", p.message)))
    old, new = message("old"), message("new")
    agent.followup(old)
    assert agent.inbox.replace(old.id, new) is True
    assert heard == [("inserted", old), ("discarded", old), ("inserted", new)]
    assert splices(agent.session)[1]["outcome"] == "canceled"


async def test_claims_are_told_after_all_their_splices(agent, root):
    seen = []
    root.on(AGENT_INBOX_CLAIMED, lambda p: seen.append((p.message, p.turn, agent.session.seq)))
    context, prompt = message("ctx"), message("prompt")
    agent.inject(context)
    agent.followup(prompt)
    assert agent.inbox.claim("next-turn", 3) == (context, prompt)
    assert seen == [(context, 3, 4), (prompt, 3, 4)]


async def test_an_observer_of_the_splice_still_sees_the_list_before_it(agent, root):
    seen = []
    root.on(SESSION_EVENT, lambda _: seen.append(agent.inbox.next_turn))
    agent.followup(message())
    assert seen == [()]


async def test_what_the_log_refuses_is_not_pending(agent):
    broken = msgspec.structs.replace(message(), content=(TextBlock("\ud800"),))
    with pytest.raises(SessionError):
        agent.followup(broken)
    assert not agent.inbox.pending
    assert agent.session.seq == 0


async def test_a_listener_may_send_in_answer_to_a_notice(agent, root):
    answer = message("answer")
    root.once(AGENT_INBOX_INSERTED, lambda _: agent.inject(answer))
    agent.followup(message())
    assert agent.inbox.next_step == (answer,)


async def test_a_resumed_session_has_its_pending_messages_back_and_a_fork_has_not(agent, root):
    context = message("ctx")
    agent.inject(context)
    seed = list(agent.session.events)
    agent.session = Session.create("b", seed=seed)
    assert Inbox(agent, root).next_step == (context,)
    agent.session = root[SESSIONS].prepare("c", seed=seed, meta=SessionMeta(seed_length=len(seed)))
    assert not Inbox(agent, root).pending


async def test_a_stored_splice_that_does_not_fit_is_named_by_its_seq(agent, root):
    agent.followup(message())
    agent.inbox.clear()
    events = list(agent.session.events)
    broken = Session.create("b")
    broken.append(INBOX_SPLICED, events[1].data)
    agent.session = broken
    with pytest.raises(AgentError, match="seq 0") as caught:
        Inbox(agent, root)
    assert caught.value.code == "INVALID_INBOX"


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "prepend", "splice", "claim", "clear", "remove"]),
        st.sampled_from(["next-turn", "next-step"]),
        st.integers(-3, 3),
        st.integers(0, 3),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS)
def test_an_inbox_rebuilt_from_its_log_holds_the_same(operations):
    import anyio
    from dsh_cordis import Context

    class Bare:
        """As much of an agent as an inbox reads."""

        def __init__(self):
            self.id = "x"
            self.session = Session.create("x")

    async def run():
        root, agent = Context(), Bare()
        inbox = Inbox(agent, root)
        for name, target, start, count in operations:
            if name in ("append", "prepend"):
                getattr(inbox, name)(target, message())
            elif name == "splice":
                inbox.splice(target, start, count, [message()])
            elif name == "claim":
                inbox.claim(target, 1)
            elif name == "clear":
                inbox.clear()
            elif inbox.next_turn:
                inbox.remove(inbox.next_turn[0].id)
        again = Inbox(agent, root)
        assert (again.next_turn, again.next_step) == (inbox.next_turn, inbox.next_step)

    anyio.run(run)
