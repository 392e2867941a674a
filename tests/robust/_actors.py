"""The plugins of random trees, which note what happens to them and can be made to misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dsh_cordis import (
    Bail,
    Context,
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

if TYPE_CHECKING:
    from ._watch import World

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


class Config(msgspec.Struct):
    """What a plugin is configured with."""

    size: int


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
    accepts: bool
    """Whether it takes new configuration in place."""
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
        expect(ctx.fiber.state is FiberState.LOADING, "a body runs in LOADING")
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
        self.world.reach("body", self)
        ctx.on(PROBE, lambda heard: heard.append(self))
        ctx.spawn(self._work, run)
        if self.shape.accepts:
            ctx.on(Internal.UPDATE, self._accept)
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
            self.world.reach("task", self)
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                run.tasks -= 1

    def _set_up_plain(self, run: Activation, cleanup: str) -> Callable[[], Any]:
        self.world.reach("setup", self)
        return next(self._hold(run, cleanup))

    def _set_up_generator(self, run: Activation, cleanup: str) -> Iterator[Callable[[], Any]]:
        stack: list[object] = []
        yield from self._hold(run, cleanup, stack)
        self.world.reach("setup", self)
        yield from self._hold(run, "now", stack)

    async def _set_up_later(self, run: Activation, cleanup: str) -> Callable[[], Any]:
        await self._middle()
        self.world.reach("setup", self)
        return next(self._hold(run, cleanup))

    async def _set_up_async_generator(self, run: Activation, cleanup: str):
        stack: list[object] = []
        for disposer in self._hold(run, cleanup, stack):
            yield disposer
        await self._middle()
        self.world.reach("setup", self)
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
            self.world.reach("cleanup", self)

        async def undo_later() -> None:
            try:
                await (self.world.hang() if cleanup == "hang" else asyncio.sleep(0))
            except asyncio.CancelledError:
                self.world.expect(False, "nobody cancels a cleanup")
                raise
            undo()

        yield undo if cleanup == "now" else undo_later

    async def _accept(self, _fiber: Fiber, _config: object, _no_save: bool, _next: object) -> None:
        await asyncio.sleep(0)

    # -- listening --------------------------------------------------------------------------

    def _hear(self, heard: list[object]) -> Any:
        heard.append(self)
        if self.shape.listens == "later":
            return self._answer()
        self.world.reach("listener", self)
        return self.world.hang() if self.shape.listens == "hang" else None

    async def _answer(self) -> None:
        self.world.reach("listener", self)
        await asyncio.sleep(0)

    def _hear_bail(self, heard: list[object]) -> None:
        heard.append(self)
        self.world.reach("listener", self)

    def _hear_waterfall_sync(self, heard: list[object], proceed: Callable[[], Any]) -> Any:
        self._hear_bail(heard)
        return proceed()

    async def _hear_waterfall(self, heard: list[object], proceed: Callable[[], Any]) -> None:
        await (self._hear(heard) or asyncio.sleep(0))
        await proceed()


def alive(run: Activation) -> bool:
    """Whether anything of it is left."""
    return bool(run.tasks or any(run.stacks))
