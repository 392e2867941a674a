"""Plugins that raise, hang, bounce and end each other in all orders, also from inside each other.

A program is a list of steps. Each step may leave the tree in the middle of something; observers
watch every change of state, and whenever the loop has nothing left to do the whole tree is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest
from dsh_cordis import (
    Bail,
    Context,
    CordisError,
    Effect,
    Emit,
    Fiber,
    FiberState,
    Internal,
    Parallel,
    Serial,
    ServiceKey,
    SyncWaterfall,
    Waterfall,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

TREES: Final = os.environ.get("DSH_TEST_TREES")
"""How many trees to try; a few hundred, always the same, if it is unset."""

KEYS: Final = [ServiceKey[object](f"random_tree_{number}") for number in range(3)]
PROBE: Final = Emit[list[object]]("random-tree/probe")
CONTAINED: Final = Emit[list[object]]("random-tree/contained", contained=True)
MODES: Final = {
    "emit": Emit[list[object]]("random-tree/emit"),
    "contained": CONTAINED,
    "parallel": Parallel[list[object]]("random-tree/parallel"),
    "serial": Serial[None, list[object]]("random-tree/serial"),
    "bail": Bail[None, list[object]]("random-tree/bail"),
    "waterfall": Waterfall[None, list[object]]("random-tree/waterfall"),
    "waterfall_sync": SyncWaterfall[None, list[object]]("random-tree/waterfall-sync"),
}
POINTS: Final = (
    *("body", "setup", "cleanup", "task", "config", "listener"),
    *("plugin", "status", "service"),
)
"""Where a plugin or an observer can be made to do something the next time that it gets there."""

PENDING, LOADING, ACTIVE, FAILED, DISPOSED, UNLOADING = FiberState
LEGAL: Final = {
    *((PENDING, LOADING), (PENDING, UNLOADING)),
    *((LOADING, ACTIVE), (LOADING, UNLOADING)),
    (ACTIVE, UNLOADING),
    *((FAILED, LOADING), (FAILED, PENDING), (FAILED, UNLOADING)),
    *((UNLOADING, PENDING), (UNLOADING, LOADING), (UNLOADING, FAILED), (UNLOADING, DISPOSED)),
}


class Config(msgspec.Struct):
    """What a plugin is configured with."""

    size: int


class FaultError(Exception):
    """Raised on purpose, and hard to look at."""

    def __repr__(self) -> str:
        raise ValueError("no text for this one")


FAULTS: Final[dict[str, Callable[[], BaseException]]] = {
    "error": FaultError,
    "cancelled": asyncio.CancelledError,
    "exit": lambda: SystemExit(3),
}


@dataclass(frozen=True)
class Shape:
    """A plugin to be mounted."""

    form: str
    needs: frozenset[int]
    gives: int | None
    realms: dict[int, str]
    effects: tuple[tuple[str, str], ...]
    """How each is set up, and how it is undone."""
    hangs: bool
    """Whether its body waits in the middle until it is let go on."""
    listens: str
    children: tuple[Shape, ...]


@dataclass(eq=False)
class Activation:
    """One run of a body, and what it registered."""

    actor: Actor
    seen: list[object]
    given: list[Effect] = field(default_factory=list)
    stacks: list[list[object]] = field(default_factory=list)
    tasks: int = 0
    over: bool = False
    error: BaseException | None = None


class Actor:
    """One mounted plugin."""

    def __init__(self, world: World, shape: Shape) -> None:
        self.world = world
        self.shape = shape
        self.Config = Config
        self.inject = tuple(KEYS[key] for key in sorted(shape.needs))
        self.fiber: Fiber | None = None
        self.runs: list[Activation] = []
        self.inside = False
        self.apply = getattr(self, f"_{shape.form}")

    # -- bodies -----------------------------------------------------------------------------

    def _plain(self, ctx: Context, _config: Config) -> None:
        run = self._enter(ctx)
        try:
            self._register(ctx, run)
        except BaseException as error:
            self._leave(run, error)
            raise
        self._leave(run, None)

    async def _later(self, ctx: Context, _config: Config) -> None:
        run = self._enter(ctx)
        try:
            await self._middle()
            self._register(ctx, run)
            await self._middle()
        except BaseException as error:
            self._leave(run, error)
            raise
        self._leave(run, None)

    def _generator(self, ctx: Context, _config: Config) -> Iterator[Callable[[], Any]]:
        run = self._enter(ctx)
        try:
            yield from self._hold(run, "now")
            self._register(ctx, run)
            yield from self._hold(run, "later")
        except BaseException as error:
            self._leave(run, error)
            raise
        self._leave(run, None)

    async def _async_generator(self, ctx: Context, _config: Config):
        run = self._enter(ctx)
        try:
            for disposer in self._hold(run, "later"):
                yield disposer
            await self._middle()
            self._register(ctx, run)
            await self._middle()
            for disposer in self._hold(run, "now"):
                yield disposer
        except BaseException as error:
            self._leave(run, error)
            raise
        self._leave(run, None)

    def _enter(self, ctx: Context) -> Activation:
        expect = self.world.expect
        expect(not self.inside, "two activations at once")
        expect(ctx.fiber.state is LOADING, "a body runs in LOADING")
        expect(ctx.fiber.uid is not None, "a body of a disposed fiber is not entered")
        expect(not any(map(alive, self.runs)), "the last activation is not undone")
        self.inside = True
        run = Activation(self, [ctx[key] for key in self.inject])
        self.runs.append(run)
        return run

    def _leave(self, run: Activation, error: BaseException | None) -> None:
        self.inside = False
        run.over = True
        run.error = error

    async def _middle(self) -> None:
        if not self.shape.hangs:
            await asyncio.sleep(0)
            return
        try:
            await self.world.hang()
        except asyncio.CancelledError:
            own = asyncio.current_task() in self.world.selfish
            self.world.expect(own, "nobody else cancels a body or a setup")
            raise

    # -- what they register -----------------------------------------------------------------

    def _register(self, ctx: Context, run: Activation) -> None:
        self.world.reach("body")
        ctx.on(PROBE, lambda heard: heard.append(self))
        ctx.spawn(self._work, run)
        if self.shape.listens:
            for mode, key in MODES.items():
                ctx.on(key, getattr(self, f"_hear_{mode}", self._hear))
        for setup, cleanup in self.shape.effects:
            ctx.effect(lambda s=setup, c=cleanup: getattr(self, f"_set_up_{s}")(run, c))
        if self.shape.gives is not None:
            run.given.append(ctx.provide(KEYS[self.shape.gives], run))
        for child in self.shape.children:
            self.world.mount(ctx, child)

    async def _work(self, run: Activation) -> None:
        run.tasks += 1
        try:
            self.world.reach("task")
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                run.tasks -= 1

    def _set_up_plain(self, run: Activation, cleanup: str) -> Callable[[], Any]:
        self.world.reach("setup")
        return next(self._hold(run, cleanup))

    def _set_up_generator(self, run: Activation, cleanup: str) -> Iterator[Callable[[], Any]]:
        stack: list[object] = []
        yield from self._hold(run, cleanup, stack)
        self.world.reach("setup")
        yield from self._hold(run, "now", stack)

    async def _set_up_later(self, run: Activation, cleanup: str) -> Callable[[], Any]:
        await self._middle()
        self.world.reach("setup")
        return next(self._hold(run, cleanup))

    async def _set_up_async_generator(self, run: Activation, cleanup: str):
        stack: list[object] = []
        for disposer in self._hold(run, cleanup, stack):
            yield disposer
        await self._middle()
        self.world.reach("setup")
        for disposer in self._hold(run, "now", stack):
            yield disposer

    def _hold(
        self, run: Activation, cleanup: str, stack: list[object] | None = None
    ) -> Iterator[Callable[[], Any]]:
        """One thing to be undone, on top of the others of its effect."""
        if stack is None:
            stack = []
        if not any(stack is known for known in run.stacks):
            run.stacks.append(stack)
        thing = object()
        stack.append(thing)

        def undo() -> None:
            self.world.expect(stack[-1:] == [thing], "undone once, the latest first")
            if thing in stack:
                stack.remove(thing)
            for key, value in zip(self.inject, run.seen, strict=True):
                assert self.fiber is not None
                self.world.expect(self.fiber.ctx[key] is value, "cleanup has what the body had")
            self.world.reach("cleanup")

        async def undo_later() -> None:
            if cleanup == "hang":
                await self.world.hang()
            await asyncio.sleep(0)
            undo()

        yield undo if cleanup == "now" else undo_later

    # -- listening --------------------------------------------------------------------------

    def _hear(self, heard: list[object]) -> Any:
        heard.append(self)
        if self.shape.listens == "later":
            return self._answer()
        self.world.reach("listener")
        return self.world.hang() if self.shape.listens == "hang" else None

    async def _answer(self) -> None:
        self.world.reach("listener")
        await asyncio.sleep(0)

    def _hear_bail(self, heard: list[object]) -> None:
        heard.append(self)
        self.world.reach("listener")

    def _hear_waterfall_sync(self, heard: list[object], proceed: Callable[[], Any]) -> Any:
        self._hear_bail(heard)
        return proceed()

    async def _hear_waterfall(self, heard: list[object], proceed: Callable[[], Any]) -> None:
        await (self._hear(heard) or asyncio.sleep(0))
        await proceed()


def alive(run: Activation) -> bool:
    """Whether anything of it is left."""
    return bool(run.tasks or any(run.stacks))


class World:
    """A tree, the observers that watch it, and what was asked of it."""

    def __init__(self, root: Context) -> None:
        self.root = root
        self.wrong: list[str] = []
        self.actors: list[Actor] = []
        self.states: dict[Fiber, FiberState] = {}
        self.asked: set[Fiber] = set()
        self.bounced: set[Fiber] = set()
        self.gates: list[asyncio.Event] = []
        self.flowing = False
        self.armed: dict[str, list[tuple[Any, ...]]] = {point: [] for point in POINTS}
        self.given: dict[int, Effect] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.selfish: set[asyncio.Task[Any]] = set()
        root.on(Internal.STATUS, self._on_status, prepend=True)
        root.on(Internal.PLUGIN, self._on_plugin, prepend=True)
        root.on(Internal.SERVICE, lambda _name, _value: self.reach("service"))
        root.on(Internal.CONFIG, self._on_config, unscoped=True)
        self.top = root.plugin(lambda _ctx, _config: None, name="top")

    def expect(self, holds: bool, claim: str) -> None:
        """Note what is wrong: raised inside a plugin, it would be contained."""
        if not holds:
            self.wrong.append(claim)

    async def hang(self) -> None:
        """Wait until the program lets go."""
        if self.flowing:
            await asyncio.sleep(0)
            return
        gate = asyncio.Event()
        self.gates.append(gate)
        try:
            await gate.wait()
        finally:
            if gate in self.gates:
                self.gates.remove(gate)

    def reach(self, point: str) -> None:
        """Do what was armed for this point."""
        if self.armed[point]:
            name, *arguments = self.armed[point].pop(0)
            if name == "raise":
                raise FAULTS[arguments[0]]()
            if name == "cancel itself":
                if point in ("body", "setup", "task"):
                    task = asyncio.current_task()
                    assert task is not None
                    self.selfish.add(task)
                    task.cancel()
                return
            self.act(name, *arguments)

    # -- observers --------------------------------------------------------------------------

    def _on_status(self, fiber: Fiber, old: FiberState) -> None:
        new = fiber.state
        if fiber is not self.root.fiber:
            self.expect((old, new) in LEGAL, f"{old.name} to {new.name}")
            known = self.states.get(fiber, PENDING)
            self.expect(known is old, f"{known.name}, and now from {old.name}")
        self.states[fiber] = new
        self.expect(new is not DISPOSED or fiber.uid is None, "disposed has no number")
        actor = self._actor(fiber)
        if old is UNLOADING:
            below = [one.fiber for one in self.actors if one.fiber and one.fiber.parent is fiber]
            self.expect(all(f.state is DISPOSED for f in below), "children end first")
            if actor is not None:
                self.expect(not any(map(alive, actor.runs)), "all is undone")
        if new is UNLOADING and actor is not None:
            self.expect(self._has_reason(actor, fiber, old), f"{old.name} left for a reason")
        if new is UNLOADING:
            self.bounced.discard(fiber)
        self.reach("status")

    def _has_reason(self, actor: Actor, fiber: Fiber, old: FiberState) -> bool:
        """Whether it was asked to go, failed, or lost a service."""
        if fiber.uid is None or fiber in self.bounced or fiber.error is not None:
            return True
        if old is LOADING and actor.runs and actor.runs[-1].error is not None:
            return True
        seen = actor.runs[-1].seen if actor.runs else []
        return [fiber.ctx.get(key) for key in actor.inject] != seen

    def _on_plugin(self, fiber: Fiber) -> None:
        if fiber.uid is None:
            owners = ancestors(fiber)
            ending = any(o.uid is None or o.state is UNLOADING for o in owners)
            self.expect(fiber in self.asked or ending, "disposed for a reason")
            self.reach("plugin")
            return
        try:
            self.reach("plugin")
        except BaseException:
            self.asked.add(fiber)
            raise

    def _on_config(self, _fiber: Fiber, _raw: object, proceed: Callable[[], object]) -> object:
        self.reach("config")
        return proceed()

    def _actor(self, fiber: Fiber) -> Actor | None:
        return next((actor for actor in self.actors if actor.fiber is fiber), None)

    # -- acting -----------------------------------------------------------------------------

    def act(self, name: str, *arguments: Any) -> None:
        """Do something now; what is gone may refuse."""
        try:
            getattr(self, f"_act_{name}")(*arguments)
        except CordisError as error:
            if error.code not in ("INACTIVE_EFFECT", "SERVICE_EXISTS", "LISTENER_STOPPED"):
                raise

    def mount(self, ctx: Context, shape: Shape) -> None:
        for key, label in shape.realms.items():
            ctx = ctx.isolate(KEYS[key], None if label == "private" else label)
        actor = Actor(self, shape)

        def born(fiber: Fiber) -> None:
            if actor.fiber is None and fiber.uid is not None:
                actor.fiber = fiber
                self.actors.append(actor)

        noticing = self.root.on(Internal.PLUGIN, born, prepend=True)
        try:
            ctx.plugin(actor, {"size": 1}, name=f"actor {len(self.actors)}")
        finally:
            noticing()

    def _pick(self, number: int) -> Actor | None:
        return self.actors[number % len(self.actors)] if self.actors else None

    def _act_mount(self, where: int, shape: Shape) -> None:
        actor = self._pick(where // 2) if where % 2 else None
        try:
            fiber = self.top if actor is None or actor.fiber is None else actor.fiber
            self.mount(fiber.ctx, shape)
        except (FaultError, SystemExit, asyncio.CancelledError):
            pass  # an observer refused

    def _act_dispose(self, which: int) -> None:
        actor = self._pick(which)
        if actor is not None and actor.fiber is not None:
            self.asked.add(actor.fiber)
            actor.fiber.dispose()

    def _act_restart(self, which: int) -> None:
        actor = self._pick(which)
        if actor is not None and actor.fiber is not None:
            self.bounced.add(actor.fiber)
            actor.fiber.restart()

    def _act_update(self, which: int, good: bool) -> None:
        actor = self._pick(which)
        if actor is not None and actor.fiber is not None:
            self.bounced.add(actor.fiber)
            config = {"size": 2 if good else "big"}
            self._start(lambda: actor.fiber.update(config))

    def _act_withdraw(self, which: int) -> None:
        actor = self._pick(which)
        if actor is not None and actor.runs and actor.runs[-1].given:
            actor.runs[-1].given[-1]()

    def _act_root(self, key: int) -> None:
        if key in self.given:
            self.given.pop(key)()
        else:
            self.given[key] = self.top.ctx.provide(KEYS[key], object())

    def _act_wait(self, which: int) -> None:
        actor = self._pick(which)
        if actor is not None and actor.fiber is not None:
            self._start(lambda: actor.fiber)

    def _act_cancel(self, which: int) -> None:
        if self.tasks:
            self.tasks[which % len(self.tasks)].cancel()

    def _act_emit(self, mode: str) -> None:
        heard: list[object] = []
        if mode in ("emit", "contained", "bail"):
            dispatch = self.root.bail if mode == "bail" else self.root.emit
            reached: list[object] = []
            self.root.emit(PROBE, reached)
            try:
                dispatch(MODES[mode], heard)
            except FAULT_TYPES:
                self.expect(mode != "contained", "contained is contained")
            wanted = [one for one in reached if one.shape.listens]
            self.expect(mode != "contained" or heard[: len(wanted)] == wanted, "each one heard")
        elif mode == "waterfall_sync":
            with contextlib.suppress(*FAULT_TYPES):
                self.root.waterfall_sync(MODES[mode], heard, inner=lambda: None)
        elif mode == "waterfall":
            inner = lambda: asyncio.sleep(0)  # noqa: E731
            self._start(lambda: self.root.waterfall(MODES[mode], heard, inner=inner))
        else:
            self._start(lambda: getattr(self.root, mode)(MODES[mode], heard))

    def _start(self, work: Callable[[], Any]) -> None:
        async def run() -> None:
            with contextlib.suppress(*FAULT_TYPES):
                await work()

        self.tasks.append(asyncio.ensure_future(run()))

    def open(self, which: int) -> None:
        """Let one that hangs go on."""
        if self.gates:
            self.gates.pop(which % len(self.gates)).set()

    def open_all(self) -> None:
        """Nothing hangs any more, nor does anything happen out of turn."""
        self.flowing = True
        for waiting in self.armed.values():
            waiting.clear()
        while self.gates:
            self.gates.pop().set()

    # -- checking ---------------------------------------------------------------------------

    def check(self) -> None:
        """The loop has nothing left to do: everything is at rest, or waits for what hangs."""
        assert self.wrong == []
        heard: list[object] = []
        self.root.emit(PROBE, heard)
        for actor in self.actors:
            assert actor.fiber is not None
            assert (actor.fiber in self.asked) <= (actor.fiber.uid is None)
            busy = actor.fiber.state in (LOADING, UNLOADING)
            assert busy is (actor.fiber.inertia is not None)
            if not busy:
                assert heard.count(actor) == (actor.fiber.state is ACTIVE)
                self._check_resting(actor, actor.fiber)
            elif not self.gates:
                pytest.fail(f"{actor.fiber} waits for something that never comes")
        mounted = {f for runtime in self.root.registry.values() for f in runtime.fibers}
        here = {one.fiber for one in self.actors if one.fiber and one.fiber.uid is not None}
        assert mounted - {self.top} == here
        if not self.gates:
            assert all(task.done() for task in self.tasks)

    def _check_resting(self, actor: Actor, fiber: Fiber) -> None:
        owners = ancestors(fiber)
        there = [fiber.ctx.get(key) for key in actor.inject]
        missing = any(value is None for value in there)
        if fiber.state is ACTIVE:
            run = actor.runs[-1]
            assert there == run.seen
            assert run.over
            assert run.error is None
            assert not any(map(alive, actor.runs[:-1]))
            return
        labels = [info.label for info in fiber.get_effects()]
        assert set(labels) <= {"ctx.plugin()"}, labels
        assert not any(map(alive, actor.runs))
        if fiber.state is PENDING:
            assert missing or any(o.uid is None or o.state is UNLOADING for o in owners)
        elif fiber.state is FAILED:
            assert not missing
            assert fiber.error is not None
        else:
            assert fiber.state is DISPOSED
            assert fiber.uid is None
            assert labels == []


FAULT_TYPES: Final = (
    FaultError,
    SystemExit,
    asyncio.CancelledError,
    CordisError,
    BaseExceptionGroup,
)


def ancestors(fiber: Fiber) -> list[Fiber]:
    """Who owns it, nearest first."""
    found: list[Fiber] = []
    while fiber.parent is not None:
        fiber = fiber.parent
        found.append(fiber)
    return found


async def settle() -> None:
    """Wait until nothing in the loop can go on by itself."""
    turns = 0
    await asyncio.sleep(0)
    while asyncio.get_running_loop()._ready:  # what no public call tells
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10_000, "it never comes to rest"


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
    assert {actor.fiber.state for actor in world.actors if actor.fiber} <= {DISPOSED}
    assert not any(alive(run) for actor in world.actors for run in actor.runs)
    assert root.fiber.get_effects() == ()
    assert len(root.registry) == 0
    assert all(root.get(key, inactive=True) is None for key in KEYS)
    assert asyncio.all_tasks() == before
    assert unseen == []
    again = root.plugin(lambda _ctx, _config: None)
    await settle()
    assert again.state is ACTIVE
    await root.fiber.dispose()
    assert again.state is DISPOSED


async def _wait(work: Any) -> None:
    await work


key = st.sampled_from(range(len(KEYS)))
which = st.sampled_from(range(24))
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


@pytest.mark.timeout(0 if TREES else 60)
@settings(
    max_examples=int(TREES or 300),
    derandomize=not TREES,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(program=programs, top_first=st.booleans())
def test_no_plugin_takes_another_down_and_nothing_is_left(
    program: list[tuple[Any, ...]], top_first: bool
) -> None:
    log = logging.getLogger("dsh.cordis")
    log.disabled = True  # thousands of tracebacks, all of them wanted
    try:
        asyncio.run(run(program, top_first=top_first))
    finally:
        log.disabled = False
