"""Every line that is marked BAD is a mistake that the type checker has to catch."""

from __future__ import annotations

from collections.abc import Iterable

from dsh_cordis import Context, Finding, Next, Service
from kernel_good import (
    ASK,
    CHECK,
    PRE_STEP,
    REGISTRY,
    STATUS,
    Decision,
    Reject,
    Status,
    Step,
    background,
)


class Texts(Service):
    inject = ("registry",)  # BAD: a name is no key

    def start(self) -> int:  # BAD: no disposer
        return 3

    def diagnose(self) -> Iterable[str]:  # BAD: text is no finding
        return ("fine",)


class Levels(Service):
    def diagnose(self) -> Iterable[Finding]:
        yield Finding("fatal", "a file", "is missing")  # BAD: wrong level


async def apply(ctx: Context, config: object) -> None:
    def wrong_payload(payload: Step) -> None: ...

    async def no_next(step: Step) -> Decision:
        return Reject("")

    async def wrong_result(step: Step, proceed: Next[Decision]) -> bool:
        return True

    def sync_in_async(step: Step, proceed: Next[Decision]) -> Decision:
        return Reject("")

    async def forgot_await(step: Step, proceed: Next[Decision]) -> Decision:
        return proceed()  # BAD: an awaitable is no decision

    async def async_in_bail(payload: Status) -> str | None:
        return None

    ctx.on(PRE_STEP, forgot_await)
    ctx.on(STATUS, wrong_payload)  # BAD: payload type
    ctx.on(PRE_STEP, no_next)  # BAD: waterfall listener without next
    ctx.on(PRE_STEP, wrong_result)  # BAD: result type
    ctx.on(PRE_STEP, sync_in_async)  # BAD: synchronous listener of an asynchronous waterfall
    ctx.on(CHECK, async_in_bail)  # BAD: asynchronous listener of a synchronous mode
    ctx.once(STATUS, wrong_payload)  # BAD: once checks like on
    ctx.emit(PRE_STEP, Step(1))  # BAD: wrong mode
    ctx.emit(STATUS, Status("a", "busy"))  # BAD: wrong literal
    ctx.emit(STATUS)  # BAD: no payload
    ctx.bail(ASK, Status("a", "idle"))  # BAD: serial is not bail
    await ctx.waterfall(PRE_STEP, Step(1))  # BAD: no inner
    ctx[REGISTRY].registr("x")  # BAD: method typo
    ctx.pluggin(1)  # BAD: context typo
    ctx.registry.register("x")  # BAD: the untyped form is for notebooks
    ctx.provide(REGISTRY, 3)  # BAD: value of another type
    ctx.spawn(background, "x")  # BAD: missing argument of the task
    ctx.effect(lambda: 3)  # BAD: no disposer
    ctx.set(REGISTRY, 3)  # BAD: value of another type
    ctx.get("registry")  # BAD: a name is no key
    ctx.isolate("registry")  # BAD: a name is no key
    ctx.intercept(REGISTRY, 3)  # BAD: settings are a mapping
    ctx.inject(("registry",), lambda _: None)  # BAD: a name is no key
    ctx.plugin(background, inject={"registry": {}})  # BAD: a name is no key
    ctx.accessor("double", lambda: 2)  # BAD: it is given the reading context
    ctx.registry = ctx.registry  # BAD: read-only
