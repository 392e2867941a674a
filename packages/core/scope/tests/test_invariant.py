"""The opt-in check refuses an event that is told to the wrong scope, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest
from dsh_cordis import Context, Emit, Target
from dsh_invariants import InvariantError, Invariants
from dsh_scope import bind_scope_parent, invariant, scope_target

pytestmark = pytest.mark.anyio


class Agent:
    def __repr__(self) -> str:
        return "the agent"


class Payload:
    def __init__(self, **fields: object) -> None:
        vars(self).update(fields)


class Tell(Protocol):
    def __call__(
        self, name: str, scoped: Callable[[Any], Target | None] | None = None
    ) -> Emit[Any]: ...


@pytest.fixture
def told() -> Iterator[Tell]:
    """Keys of the product with other scope rules, for one test: a name has one key object."""
    rules: dict[Emit[Any], Callable[[Any], Target | None] | None] = {}

    def tell(name: str, scoped: Callable[[Any], Target | None] | None = None) -> Emit[Any]:
        key = Emit[Any](name)
        rules.setdefault(key, key.scoped)
        key.scoped = scoped
        return key

    yield tell
    for key, scoped in rules.items():
        key.scoped = scoped


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    async with Context() as root:
        await root.plugin(Invariants)
        await root.plugin(invariant)
        yield root


AGENT = Agent()
PAYLOADS = [
    ("agent/status", Payload(agent=AGENT)),
    ("agent/inbox/claimed", Payload(agent=AGENT)),
    ("tools/pre-execute", Payload(agent=AGENT)),
    ("tools/result", Payload(execution=Payload(agent=AGENT))),
    ("system-prompt/assemble", Payload(context=Payload(scope=AGENT))),
]


@pytest.mark.parametrize(("name", "payload"), PAYLOADS)
async def test_an_event_of_an_agent_goes_to_its_scope_and_no_other(
    root: Context, told: Tell, name: str, payload: Payload
) -> None:
    root.emit(told(name), payload, target=scope_target(AGENT))
    with pytest.raises(InvariantError, match=f"{name} is dispatched to None, not to a scope"):
        root.emit(told(name), payload)
    for other in (scope_target(Agent()), scope_target(None)):
        with pytest.raises(InvariantError, match="another scope than that of the agent"):
            root.emit(told(name), payload, target=other)


async def test_the_scope_that_a_key_derives_counts_as_its_target(root: Context, told: Tell) -> None:
    good = told("agent/created", lambda payload: scope_target(payload.agent))
    root.emit(good, Payload(agent=AGENT))
    bad = told("agent/disposed", lambda _: scope_target(None))
    with pytest.raises(InvariantError):
        root.emit(bad, Payload(agent=AGENT))


async def test_a_call_that_no_agent_made_goes_to_nobodys_scope(root: Context, told: Tell) -> None:
    root.emit(told("tools/execute"), Payload(agent=None), target=scope_target(None))
    with pytest.raises(InvariantError):
        root.emit(told("tools/execute"), Payload(agent=None), target=scope_target(AGENT))


async def test_an_event_of_a_session_needs_a_scope_whichever(root: Context, told: Tell) -> None:
    for target in (scope_target(AGENT), scope_target(None)):
        root.emit(told("session/event"), Payload(), target=target)
    with pytest.raises(InvariantError, match="session/event"):
        root.emit(told("session/event"), Payload())


async def test_a_key_keeps_its_scope_when_it_is_moved(root: Context, told: Tell) -> None:
    key = Agent()
    target = scope_target(key)
    move = bind_scope_parent(key, Agent())
    move(None)
    root.emit(told("agent/status"), Payload(agent=key), target=target)


async def test_other_events_are_not_looked_at(root: Context, told: Tell) -> None:
    root.emit(told("weather/changed"), Payload())


async def test_a_refused_event_reaches_nobody(root: Context, told: Tell) -> None:
    heard: list[Payload] = []
    root.on(told("agent/status"), heard.append)
    with pytest.raises(InvariantError):
        root.emit(told("agent/status"), Payload(agent=AGENT))
    assert heard == []


async def test_nothing_is_checked_when_the_package_is_not_selected(told: Tell) -> None:
    async with Context() as root:
        await root.plugin(Invariants, {"packageBlocklist": ["^dsh-scope$"]})
        await root.plugin(invariant)
        root.emit(told("agent/status"), Payload(agent=AGENT))
