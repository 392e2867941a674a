"""A random tree under observation: every change of state, and the whole whenever it is at rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import pytest
from dsh_cordis import Context, CordisError, Effect, Fiber, FiberState, Internal, current_fiber

from ._actors import KEYS, MODES, PROBE, Actor, Shape, alive

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


class FaultError(Exception):
    """Raised on purpose, and hard to look at."""

    def __repr__(self) -> str:
        raise ValueError("no text for this one")


FAULTS: Final[dict[str, Callable[[], BaseException]]] = {
    "error": FaultError,
    "cancelled": asyncio.CancelledError,
    "exit": lambda: SystemExit(3),
    "several": lambda: BaseExceptionGroup("several", [SystemExit(3), FaultError()]),
}
FAULT_TYPES: Final = (
    FaultError,
    SystemExit,
    asyncio.CancelledError,
    CordisError,
    BaseExceptionGroup,
)


class World:
    """A tree, the observers that watch it, and what was asked of it."""

    def __init__(self, root: Context) -> None:
        self.root = root
        self.wrong: list[str] = []
        self.actors: list[Actor] = []
        self.states: dict[Fiber, FiberState] = {}
        self.asked: set[Fiber] = set()
        self.bounced: set[Fiber] = set()
        self.owed: set[Fiber] = set()
        self.gates: list[asyncio.Event] = []
        self.flowing = False
        self.current: Actor | None = None
        """Whose code does what was armed; -1 in a step means that one."""
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

    def reach(self, point: str, actor: Actor | None = None) -> None:
        """Do what was armed for this point, in the code of `actor` or on its account."""
        if self.armed[point]:
            name, *arguments = self.armed[point].pop(0)
            self.current = actor
            if name == "raise":
                raise FAULTS[arguments[0]]()
            if name == "cancel itself":
                self._cancel_running(point)
                return
            self.act(name, *arguments)

    def _cancel_running(self, point: str) -> None:
        """Ask a task of the kernel to end, from inside; a body only from its own code."""
        task, owner = asyncio.current_task(), current_fiber()
        if task is None or owner is None:
            return
        mine = self._actor(owner)
        loading = mine is not None and mine.inside and task is owner.inertia
        if point in ("body", "setup", "task") or (point == "cleanup" and loading):
            self.selfish.add(task)
        elif loading or (point != "cleanup" and task is not owner.inertia):
            return  # that would be somebody else's body, setup or task
        task.cancel()

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
            self.owed.discard(fiber)
        if new is LOADING:
            ending = any(o.uid is None or o.state is UNLOADING for o in ancestors(fiber))
            self.expect(not ending, "nothing starts below what ends")
        self.reach("status", actor)

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
            self.reach("plugin", self._actor(fiber))
            return
        try:
            self.reach("plugin", self._actor(fiber))
        except BaseException:
            self.asked.add(fiber)
            raise

    def _on_config(self, fiber: Fiber, _raw: object, proceed: Callable[[], object]) -> object:
        self.reach("config", self._actor(fiber))
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
        if number < 0 and self.current is not None:
            return self.current
        return self.actors[number % len(self.actors)] if self.actors else None

    def _act_mount(self, where: int, shape: Shape) -> None:
        actor = self._pick(where // 2) if where % 2 else None
        try:
            fiber = self.top if actor is None or actor.fiber is None else actor.fiber
            self.mount(fiber.ctx, shape)
        except FAULT_TYPES:
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
            if actor.fiber.state in (LOADING, ACTIVE):
                self.owed.add(actor.fiber)
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
            fiber = actor.fiber
            self._start(lambda: self._wait(fiber))

    async def _wait(self, fiber: Fiber) -> None:
        try:
            await fiber
        except BaseException as error:
            task = asyncio.current_task()
            own = error is fiber.error or (task is not None and bool(task.cancelling()))
            self.expect(own, "who waits is told why it failed")
            raise
        self.expect(fiber.error is None, "who waits is told that it failed")

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
        assert fiber not in self.owed, "a restart was forgotten"
        assert (fiber.uid is None) is (fiber.state is DISPOSED)
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


def ancestors(fiber: Fiber) -> list[Fiber]:
    """Who owns it, nearest first."""
    found: list[Fiber] = []
    while fiber.parent is not None:
        fiber = fiber.parent
        found.append(fiber)
    return found
