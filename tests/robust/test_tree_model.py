"""After each step, every plugin of a random tree is where a small model of the kernel says.

The model knows no tasks and no order: who needs what, who provides it, who owns whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest
from dsh_cordis import (
    ConfigError,
    Context,
    CordisError,
    Effect,
    Emit,
    Fiber,
    FiberState,
    Internal,
    ServiceKey,
)
from hypothesis import given
from hypothesis import strategies as st

from ._runs import PATIENCE_S, settle, silence, trees

KEYS: Final = [ServiceKey[object](f"tree_model_{number}") for number in range(4)]
PROBE: Final = Emit[list[int]]("tree-model/probe")

Slot = tuple[int, object]
"""A key by number and a realm: None is the root's, text a label, a number private to a plugin."""


class Config(msgspec.Struct):
    """What a plugin is configured with."""

    size: int


class PluginFailedError(Exception):
    """Raised by bodies."""


@dataclass(frozen=True)
class Shape:
    """A plugin to be mounted."""

    form: str
    needs: frozenset[int]
    gives: int | None
    realms: dict[int, str]
    fails: bool
    bad_config: bool
    in_place: bool


@dataclass(eq=False)
class Node:
    """What the model knows of one mounted plugin."""

    number: int
    parent: Node | None
    shape: Shape
    realms: dict[int, object]
    gives: Slot | None
    needs: tuple[Slot, ...]
    fails: bool
    bad_config: bool
    state: FiberState = FiberState.PENDING
    holds: bool = False
    runs: int = 0
    children: list[Node] = field(default_factory=list)

    @property
    def disposed(self) -> bool:
        return self.state is FiberState.DISPOSED

    @property
    def must_load(self) -> bool:
        """Whether it has plugins below before it loads.

        If it failed, they would be gone, and whether one of them had run by then is up to chance.
        """
        return self.state is not FiberState.ACTIVE and any(not c.disposed for c in self.children)


class Model:
    """The wanted states, found by going through the consequences of each step."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.rooted: dict[int, int] = {}

    # -- steps ------------------------------------------------------------------------------

    def mount(self, parent: Node | None, shape: Shape) -> Node:
        number = len(self.nodes)
        realms: dict[int, object] = dict(parent.realms) if parent else {}
        for key, label in shape.realms.items():
            realms[key] = number if label == "private" else label
        gives = None if shape.gives is None else (shape.gives, realms.get(shape.gives))
        if gives is not None and self._taken(gives):
            gives = None
        needs = tuple((key, realms.get(key)) for key in sorted(shape.needs))
        node = Node(
            number, parent, shape, realms, gives, needs, shape.fails, bad_config=shape.bad_config
        )
        self.nodes.append(node)
        if parent:
            parent.children.append(node)
        return node

    def dispose(self, node: Node) -> None:
        if not node.disposed:
            self._leave(node, FiberState.DISPOSED)

    def restart(self, node: Node) -> None:
        if node.state in (FiberState.ACTIVE, FiberState.FAILED):
            self._retry(node)

    def withdraw(self, node: Node) -> None:
        node.holds = False
        assert node.gives is not None
        self._lost(node.gives)

    def root_provides(self, key: int) -> bool:
        if self._taken((key, None)):
            return False
        self.rooted[key] = 1
        return True

    def root_withdraws(self, key: int) -> None:
        del self.rooted[key]
        self._lost((key, None))

    def settle(self) -> None:
        """Let everything load that can."""
        again = True
        while again:
            again = False
            for node in self.nodes:
                if node.state is FiberState.PENDING and all(map(self.available, node.needs)):
                    self._run(node)
                    again = True

    # -- reading ----------------------------------------------------------------------------

    def available(self, slot: Slot) -> bool:
        return (slot[1] is None and slot[0] in self.rooted) or self.provider(slot) is not None

    def provider(self, slot: Slot) -> Node | None:
        return next((n for n in self.nodes if n.gives == slot and n.holds), None)

    def above(self, node: Node) -> set[Node]:
        """Who ends with it or because of it: its owners, who provides for it, and theirs."""
        found, new = {node}, [node]
        while new:
            one = new.pop()
            providers = (self.provider(slot) for slot in one.needs)
            for other in (one.parent, *providers):
                if other is not None and other not in found:
                    found.add(other)
                    new.append(other)
        return found

    # -- consequences -----------------------------------------------------------------------

    def _taken(self, slot: Slot) -> bool:
        if slot[1] is None and slot[0] in self.rooted:
            return True
        return any(node.gives == slot and not node.disposed for node in self.nodes)

    def _retry(self, node: Node) -> None:
        if node.state is FiberState.ACTIVE:
            self._leave(node, FiberState.PENDING)
        else:
            node.state = FiberState.PENDING

    def _leave(self, node: Node, state: FiberState) -> None:
        node.state = state
        if node.holds:
            node.holds = False
            assert node.gives is not None
            self._lost(node.gives)
        for child in node.children:
            self.dispose(child)

    def _lost(self, slot: Slot) -> None:
        for node in self.nodes:
            if slot in node.needs and not node.disposed:
                self._retry(node)

    def _run(self, node: Node) -> None:
        if not node.bad_config:
            node.runs += 1
            if not node.fails:
                node.state = FiberState.ACTIVE
                node.holds = node.gives is not None
                return
        node.state = FiberState.FAILED
        for child in node.children:
            self.dispose(child)
        # What it needs may have been provided by what it owned.
        if not all(map(self.available, node.needs)):
            node.state = FiberState.PENDING


class Real:
    """The plugin of one node, and what happened to it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.fiber: Fiber
        self.runs = 0
        self.inside = False
        self.registration: Effect | None = None
        self.live: list[str] = []
        self.seen: list[object] = []
        self.config: object = None
        self.Config = Config
        self.inject = tuple(KEYS[key] for key, _realm in node.needs)
        self.apply = getattr(self, f"_{node.shape.form}")

    def _enter(self, ctx: Context, config: object) -> None:
        assert not self.inside, "two activations at once"
        assert ctx.fiber.state is FiberState.LOADING
        assert self.live == [], "the last activation is not undone"
        self.inside = True
        self.runs += 1
        self.config = config
        self.seen = [ctx[key] for key in self.inject]

    def _register(self, ctx: Context) -> None:
        ctx.on(PROBE, lambda heard: heard.append(self.node.number))
        if self.node.gives is not None:
            value = (self.node.number, self.runs)
            self.registration = ctx.provide(KEYS[self.node.gives[0]], value)
        if self.node.shape.in_place:
            ctx.on(Internal.UPDATE, self._accept)
        ctx.effect(lambda: self._hold("abc"))
        ctx.spawn(asyncio.Event().wait)

    def _hold(self, names: str) -> Iterator[Callable[[], Any]]:
        for name in names:
            self.live.append(name)
            yield self._undoing(name, later=name == "b")

    def _undoing(self, name: str, *, later: bool) -> Callable[[], Any]:
        async def undo_later() -> None:
            await asyncio.sleep(0)
            undo()

        def undo() -> None:
            # Still there for the cleanup, whoever goes first.
            assert [self.fiber.ctx[key] for key in self.inject] == self.seen
            # Contained if not so, and then it stays there. Only "d" is of another effect.
            assert name in ("d", [one for one in self.live if one != "d"][-1])
            self.live.remove(name)

        return undo_later if later else undo

    async def _accept(self, _fiber: Fiber, config: object, _no_save: bool, _next: object) -> None:
        self.config = config

    def _leave(self) -> None:
        self.inside = False
        if self.node.fails:
            raise PluginFailedError(self.node.number)

    def _plain(self, ctx: Context, config: object) -> None:
        self._enter(ctx, config)
        self._register(ctx)
        self._leave()

    async def _later(self, ctx: Context, config: object) -> None:
        self._enter(ctx, config)
        await asyncio.sleep(0)
        self._register(ctx)
        await asyncio.sleep(0)
        self._leave()

    def _generator(self, ctx: Context, config: object) -> Iterator[Callable[[], Any]]:
        self._enter(ctx, config)
        yield from self._hold("d")
        self._register(ctx)
        self._leave()

    async def _async_generator(self, ctx: Context, config: object):
        self._enter(ctx, config)
        await asyncio.sleep(0)
        for disposer in self._hold("d"):
            yield disposer
        self._register(ctx)
        yield None
        self._leave()


class World:
    """A tree of plugins beside its model."""

    def __init__(self, root: Context) -> None:
        self.root = root
        self.model = Model()
        self.reals: list[Real] = []
        self.rooted: dict[int, Effect] = {}

    async def take(self, step: tuple[Any, ...]) -> None:
        """Do one step in both and compare."""
        await getattr(self, f"_step_{step[0]}")(*step[1:])
        self.check()

    def _pick(self, number: int) -> Real | None:
        return self.reals[number % len(self.reals)] if self.reals else None

    async def _step_mount(self, where: int, shape: Shape) -> None:
        parent = self._pick(where // 2) if where % 2 else None
        ctx = parent.fiber.ctx if parent else self.root
        for key, label in shape.realms.items():
            ctx = ctx.isolate(KEYS[key], None if label == "private" else label)
        if parent and parent.node.disposed:
            with pytest.raises(CordisError, match="inactive context"):
                ctx.plugin(lambda _ctx, _config: None)
            return
        if parent and (parent.node.fails or parent.node.bad_config):
            return
        node = self.model.mount(parent.node if parent else None, shape)
        real = Real(node)
        config = {"size": "big" if shape.bad_config else node.number}
        real.fiber = ctx.plugin(real, config, name=f"node {node.number}")
        self.reals.append(real)
        self.model.settle()
        await self._ends(real.fiber, node)

    async def _step_dispose(self, which: int) -> None:
        real = self._pick(which)
        if real is not None:
            self.model.dispose(real.node)
            self.model.settle()
            await quiet(real.fiber.dispose())

    async def _step_restart(self, which: int) -> None:
        real = self._pick(which)
        if real is None:
            return
        if real.node.disposed:
            with pytest.raises(CordisError, match="inactive context"):
                real.fiber.restart()
            return
        self.model.restart(real.node)
        self.model.settle()
        await self._ends(real.fiber.restart(), real.node)

    async def _step_update(self, which: int, good: bool) -> None:
        real = self._pick(which)
        if real is None or real.node.disposed or (real.node.must_load and not good):
            return
        node, fiber = real.node, real.fiber
        update = fiber.update({"size": 100 if good else "big"})
        if node.state is not FiberState.ACTIVE:
            node.bad_config = not good
            self.model.restart(node)
            self.model.settle()
            await self._ends(update, node)
        elif not good:
            with pytest.raises(ConfigError):
                await quiet(update)
        elif node.shape.in_place:
            await quiet(update)
            assert fiber.config == real.config == Config(100) or real.config == {"size": 100}
        else:
            self.model.restart(node)
            self.model.settle()
            await self._ends(update, node)
            assert node.state is not FiberState.ACTIVE or real.config == Config(100)

    async def _step_fault(self, which: int, fails: bool) -> None:
        real = self._pick(which)
        if real is not None and not real.node.must_load:
            real.node.fails = fails

    async def _step_withdraw(self, which: int) -> None:
        real = self._pick(which)
        if real is not None and real.node.holds:
            assert real.registration is not None
            above = self.model.above(real.node)
            holding = [
                one
                for one in self.reals
                if one.node.state is FiberState.ACTIVE
                and real.node.gives in one.node.needs
                and one.node not in above
            ]
            self.model.withdraw(real.node)
            self.model.settle()
            pending = real.registration()
            await quiet(self._gone(pending, holding))

    async def _gone(self, pending: Any, holding: list[Real]) -> None:
        """The registration is gone when all who used the service have cleaned up."""
        runs = [real.runs for real in holding]
        if pending is not None:
            await pending
        assert not any(
            real.live for real, run in zip(holding, runs, strict=True) if real.runs == run
        )

    async def _step_root(self, key: int) -> None:
        if key in self.rooted:
            self.model.root_withdraws(key)
            self.model.settle()
            pending = self.rooted.pop(key)()
            await quiet(pending or asyncio.sleep(0))
        elif self.model.root_provides(key):
            self.rooted[key] = self.root.provide(KEYS[key], ("root", key))
            self.model.settle()
            await settle()

    async def _ends(self, work: Any, node: Node) -> None:
        """`work` raises what `node` failed of, or nothing."""
        if node.state is FiberState.FAILED:
            with pytest.raises(ConfigError if node.bad_config else PluginFailedError):
                await quiet(work)
        else:
            await quiet(work)

    def check(self) -> None:
        """Every plugin is where the model says, and holds what goes with that."""
        heard: list[int] = []
        self.root.emit(PROBE, heard)
        active = [n.number for n in self.model.nodes if n.state is FiberState.ACTIVE]
        assert sorted(heard) == active
        for real in self.reals:
            self._check_one(real)
        alive = {real.fiber for real in self.reals if not real.node.disposed}
        mounted = [fiber for runtime in self.root.registry.values() for fiber in runtime.fibers]
        assert len(mounted) == len(alive)
        assert set(mounted) == alive

    def _check_one(self, real: Real) -> None:
        node, fiber = real.node, real.fiber
        assert fiber.state is node.state, f"{fiber}: the model says {node.state.name}"
        assert fiber.inertia is None
        assert (fiber.uid is None) is node.disposed
        assert real.runs == node.runs
        assert not real.inside
        labels = [info.label for info in fiber.get_effects()]
        assert labels.count("ctx.plugin()") == sum(not child.disposed for child in node.children)
        if node.state is not FiberState.ACTIVE:
            assert set(labels) <= {"ctx.plugin()"}
            assert real.live == []
            return
        assert sorted(real.live) == sorted("abc" + "d" * ("generator" in node.shape.form))
        assert [self._value(slot) for slot in node.needs] == real.seen
        assert [fiber.ctx[key] for key in real.inject] == real.seen
        for key, slot in enumerate((key, node.realms.get(key)) for key in range(len(KEYS))):
            assert fiber.ctx.get(KEYS[key]) == self._value(slot)

    def _value(self, slot: Slot) -> object:
        if slot[1] is None and slot[0] in self.rooted:
            return ("root", slot[0])
        provider = self.model.provider(slot)
        return None if provider is None else (provider.number, provider.runs)


async def quiet(work: Any) -> None:
    """Await `work`, which must not need anything but the loop, and let the consequences settle."""

    async def run() -> None:
        await work

    task = asyncio.ensure_future(run())
    await settle()
    assert task.done(), "it waits for something that never comes"
    task.result()


async def run(steps: list[tuple[Any, ...]]) -> None:
    before = asyncio.all_tasks()
    root = Context()
    world = World(root)
    for step in steps:
        await world.take(step)
    for real in world.reals:
        world.model.dispose(real.node)
    world.model.rooted.clear()
    world.rooted.clear()
    await quiet(root.fiber.dispose())
    world.check()
    assert root.fiber.get_effects() == ()
    assert root.fiber.state is FiberState.ACTIVE
    assert all(root.get(key) is None for key in KEYS)
    assert asyncio.all_tasks() == before


key = st.integers(0, len(KEYS) - 1)
which = st.integers(0, 23)
shape = st.builds(
    Shape,
    form=st.sampled_from(["plain", "later", "generator", "async_generator"]),
    needs=st.frozensets(key, max_size=2),
    gives=st.none() | key,
    realms=st.just({}) | st.dictionaries(key, st.sampled_from(["x", "y", "private"]), max_size=2),
    fails=st.sampled_from([False] * 7 + [True]),
    bad_config=st.sampled_from([False] * 7 + [True]),
    in_place=st.booleans(),
)
mount = st.tuples(st.just("mount"), which, shape)
step = (
    mount
    | mount
    | st.tuples(st.just("root"), key)
    | st.tuples(st.just("dispose"), which)
    | st.tuples(st.just("restart"), which)
    | st.tuples(st.just("withdraw"), which)
    | st.tuples(st.just("update"), which, st.booleans())
    | st.tuples(st.just("fault"), which, st.booleans())
)
# Two lists: hypothesis seldom makes one long enough for a tree to grow and to be shaken.
steps = st.builds(
    list.__add__,
    st.lists(mount, min_size=3, max_size=10),
    st.lists(step, min_size=5, max_size=40),
)


@pytest.mark.timeout(PATIENCE_S)
@trees(300)
@given(steps=steps)
def test_every_plugin_is_where_the_model_says_after_each_step(steps: list[tuple[Any, ...]]) -> None:
    with silence():
        asyncio.run(run(steps))
