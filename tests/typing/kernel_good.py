"""What a plugin author writes; the type checker has nothing to say about it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, assert_type

from dsh_cordis import (
    Bail,
    Context,
    Disposer,
    Emit,
    Fiber,
    Finding,
    Next,
    NextSync,
    Parallel,
    Serial,
    Service,
    ServiceKey,
    SyncWaterfall,
    Waterfall,
    unwrap,
)


@dataclass(frozen=True, slots=True)
class Status:
    agent: str
    status: Literal["idle", "running"]


@dataclass(frozen=True, slots=True)
class Step:
    turn: int


@dataclass(frozen=True, slots=True)
class Enter:
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reject:
    reason: str


Decision = Enter | Reject


class Registry(Service):
    inject = ()

    def __init__(self, ctx: Context, config: None = None) -> None:
        super().__init__(ctx, config)
        self.items: list[str] = []

    def register(self, item: str) -> Disposer:
        def setup() -> Disposer:
            self.items.append(item)
            return lambda: self.items.remove(item)

        return self.ctx.effect(setup, "registry")

    async def run(self, name: str) -> int:
        return len(name)

    async def start(self) -> AsyncIterator[Disposer]:
        yield lambda: None


REGISTRY = ServiceKey[Registry]("registry")
READER = ServiceKey["Reader"]("reader")


class Reader(Service):
    """Asks its provider for something, and says how it is."""

    provides = READER
    inject = {REGISTRY: {"prefix": "mine-"}}  # noqa: RUF012 - a mapping of keys to settings

    def __call__(self, name: str) -> str:
        return name

    def settings(self) -> Mapping[str, object]:
        return self.ctx.interception(REGISTRY)

    def diagnose(self) -> Iterable[Finding]:
        yield Finding("error", "a file", "is missing", "restore it")


class Watcher(Service):
    async def diagnose(self) -> AsyncIterator[Finding]:
        yield Finding("ok", "a program", "is there")


STATUS = Emit[Status]("agent/status", contained=True)
STOPPING = Parallel[Status]("agent/stopping")
ASK = Serial[bool, Status]("agent/ask")
CHECK = Bail[str, Status]("agent/check")
PRE_STEP = Waterfall[Decision, Step]("agent/pre-step")
ASSEMBLE = SyncWaterfall[str, Step]("agent/assemble")


class Config:
    limit: int = 3


async def background(name: str, count: int) -> str:
    return name * count


async def apply(ctx: Context, config: Config) -> AsyncIterator[Disposer]:
    registry = ctx[REGISTRY]
    assert_type(registry, Registry)
    optional = ctx.get(REGISTRY)
    if optional is not None:
        assert_type(await optional.run("x"), int)

    def on_status(payload: Status) -> None:
        print(payload.agent)

    async def on_status_later(payload: Status) -> None:
        print(payload.status)

    async def ask(payload: Status) -> bool | None:
        return payload.status == "idle" or None

    def check(payload: Status) -> str | None:
        return payload.agent or None

    async def pre_step(step: Step, proceed: Next[Decision]) -> Decision:
        if step.turn > config.limit:
            return Reject("limit")
        decision = await proceed()
        assert_type(decision, Enter | Reject)
        return decision

    def assemble(step: Step, proceed: NextSync[str]) -> str:
        return proceed() + str(step.turn)

    ctx.on(STATUS, on_status)
    ctx.on(STATUS, on_status_later, unscoped=True)
    ctx.once(STOPPING, on_status_later)
    ctx.on(ASK, ask)
    ctx.on(CHECK, check)
    ctx.on(PRE_STEP, pre_step, prepend=True)
    ctx.on(ASSEMBLE, assemble)

    async def inner() -> Decision:
        return Enter(messages=())

    assert_type(await ctx.waterfall(PRE_STEP, Step(1), inner=inner), Enter | Reject)
    assert_type(ctx.waterfall_sync(ASSEMBLE, Step(1), inner=lambda: ""), str)
    assert_type(await ctx.serial(ASK, Status("a", "idle")), bool | None)
    assert_type(ctx.bail(CHECK, Status("a", "idle")), str | None)
    ctx.emit(STATUS, Status("a", "running"))
    await ctx.parallel(STOPPING, Status("a", "idle"))
    ctx.provide(REGISTRY, registry)
    task = ctx.spawn(background, "x", 2)
    assert_type(await task, str | None)
    assert_type(await ctx.plugin(Registry), Fiber)
    apart = ctx.isolate(REGISTRY)
    assert_type(apart, Context)
    assert_type(ctx.isolate(REGISTRY, "shared").intercept(REGISTRY, {"prefix": "x"}), Context)
    assert_type(ctx.get(REGISTRY, inactive=True), Registry | None)
    ctx.set(REGISTRY, registry)
    ctx.accessor("double", lambda reader: reader.meta("name"))
    ctx.mixin(REGISTRY, ["register"])
    ctx.mixin(REGISTRY, {"register": "put"})
    ctx.plugin(Reader, inject={REGISTRY: {"prefix": "x"}}, name="reader")
    assert_type(unwrap(registry), Registry)
    for runtime in ctx.registry.values():
        assert_type(runtime.fibers, tuple[Fiber, ...])

    def with_reader(inner: Context) -> Disposer:
        assert_type(inner[READER]("x"), str)
        return lambda: None

    ctx.inject((READER,), with_reader)
    yield registry.register("x")
    yield ctx.effect(lambda: None)
