"""Plugins that raise, hang, bounce and end each other in all orders, also from inside each other.

A program is a list of steps. Each step may leave the tree in the middle of something; observers
watch every change of state, and whenever the loop has nothing left to do the whole tree is checked.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from dsh_cordis import Context, FiberState
from hypothesis import given
from hypothesis import strategies as st

from ._actors import KEYS, MODES, Shape, alive
from ._runs import PATIENCE_S, settle, silence, trees
from ._watch import FAULTS, POINTS, World


async def run(program: list[tuple[Any, ...]], *, top_first: bool) -> None:
    before = asyncio.all_tasks()
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: unseen.append(about))
    root = Context()
    world = World(root)
    for turns, name, *arguments in program:
        if name == "arm":
            point, *action = arguments
            world.armed[point].append(tuple(action))
        elif name == "open":
            world.open(*arguments)
        else:
            world.act(name, *arguments)
        if turns is None:
            await settle()
            world.check()
        for _ in range(turns or 0):
            await asyncio.sleep(0)
    await settle()
    world.check()
    world.open_all()
    await settle()
    world.check()
    if top_first:
        world.asked.add(world.top)
        end = asyncio.ensure_future(_wait(world.top.dispose()))
        await settle()
        assert end.done()
        world.check()
    end = asyncio.ensure_future(_wait(root.fiber.dispose()))
    await settle()
    assert end.done()
    assert world.wrong == []
    assert {actor.fiber.state for actor in world.actors if actor.fiber} <= {FiberState.DISPOSED}
    assert not any(alive(run) for actor in world.actors for run in actor.runs)
    assert root.fiber.get_effects() == ()
    assert len(root.registry) == 0
    assert all(root.get(key, inactive=True) is None for key in KEYS)
    assert asyncio.all_tasks() == before
    assert unseen == []
    again = root.plugin(lambda _ctx, _config: None)
    await settle()
    assert again.state is FiberState.ACTIVE
    await root.fiber.dispose()
    assert again.state is FiberState.DISPOSED


async def _wait(work: Any) -> None:
    await work


key = st.sampled_from(range(len(KEYS)))
which = st.sampled_from([*[-1] * 6, *range(24)])
NEEDS: Final = [frozenset(some) for some in ([], [], [0], [0], [1], [2], [0, 1], [1, 2])]
"""Most are few: a tree in which everybody waits is a quiet one."""


def shapes(children: st.SearchStrategy[tuple[Shape, ...]]) -> st.SearchStrategy[Shape]:
    return st.builds(
        Shape,
        form=st.sampled_from(["plain", "later", "generator", "async_generator"]),
        needs=st.sampled_from(NEEDS),
        gives=st.sampled_from([None, *range(len(KEYS))]),
        realms=st.just({})
        | st.dictionaries(key, st.sampled_from(["x", "private"]), min_size=1, max_size=2),
        effects=st.lists(
            st.tuples(
                st.sampled_from(["plain", "later", "generator", "async_generator"]),
                st.sampled_from(["now", "later", "hang"]),
            ),
            max_size=2,
        ).map(tuple),
        hangs=st.booleans(),
        listens=st.sampled_from(["", "now", "later", "hang"]),
        accepts=st.booleans(),
        children=children,
    )


shape = shapes(st.just(()) | st.lists(shapes(st.just(())), max_size=2).map(tuple))
mount = st.tuples(st.just("mount"), which, shape)
action = (
    mount
    | st.tuples(st.sampled_from(["dispose", "restart", "withdraw", "wait", "cancel"]), which)
    | st.tuples(st.just("update"), which, st.booleans())
    | st.tuples(st.just("root"), key)
    | st.tuples(st.just("emit"), st.sampled_from(list(MODES)))
)
armed = (
    action
    | st.tuples(st.just("raise"), st.sampled_from(list(FAULTS)))
    | st.just(("cancel itself",))
)
arm = st.builds(lambda point, do: ("arm", point, *do), st.sampled_from(POINTS), armed)
turns = st.none() | st.integers(0, 3)


def timed(step: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.builds(lambda after, step: (after, *step), turns, step)


# Long enough that something is there to be shaken; hypothesis prefers short lists.
programs = st.builds(
    lambda first, rest: [*first, *(step for some in rest for step in some)],
    st.lists(timed(mount), min_size=3, max_size=6),
    st.lists(
        st.tuples(timed(arm), timed(action))
        | st.tuples(timed(arm), timed(arm), timed(action))
        | st.tuples(timed(action), timed(st.tuples(st.just("open"), which))),
        min_size=8,
        max_size=20,
    ),
)


@pytest.mark.timeout(PATIENCE_S)
@trees(300)
@given(program=programs, top_first=st.booleans())
def test_no_plugin_takes_another_down_and_nothing_is_left(
    program: list[tuple[Any, ...]], top_first: bool
) -> None:
    with silence():
        asyncio.run(run(program, top_first=top_first))
