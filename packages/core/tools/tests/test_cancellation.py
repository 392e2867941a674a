from __future__ import annotations

import asyncio
from typing import Any

import pytest
from dsh_cordis import AbortController
from dsh_tools import (
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    Deny,
    ToolError,
)

pytestmark = pytest.mark.anyio


async def hello(args, execution) -> str:
    return "hello"


async def test_arguments_of_a_pre_aborted_call_are_judged_first(kit) -> None:
    kit.add(hello)
    kit.abort.abort()
    assert (await kit.call({"x": float("nan")})).error.code == "INVALID_ARGS"


async def test_a_body_cancelled_by_its_own_work_is_a_failure(kit, text) -> None:
    async def body(args, execution) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    kit.add(body)
    assert "was cancelled" in text(await kit.call())


async def test_a_cancellation_of_the_callers_task_passes_through(kit) -> None:
    entered = asyncio.Event()

    async def body(args, execution) -> None:
        entered.set()
        await asyncio.Event().wait()

    kit.add(body)
    call = asyncio.ensure_future(kit.call())
    await entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_wrappers_signal_never_cuts_the_body_off_from_its_caller(kit) -> None:
    wrapper = AbortController()
    seen: dict[str, Any] = {}

    async def wrap(execution, proceed):
        execution.replace_signal(wrapper.signal)
        outcome = await proceed()
        seen["after"] = execution.signal
        return outcome

    async def body(args, execution) -> None:
        seen["body"] = execution.signal
        kit.abort.abort("stop")
        seen["aborted"] = (execution.signal.aborted, execution.signal.reason)

    async def post(executed, proceed):
        seen["post"] = executed.execution.signal
        return await proceed()

    kit.root.on(TOOLS_EXECUTE, wrap)
    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(body)
    await kit.call()
    assert seen["body"] is not wrapper.signal
    assert seen["aborted"] == (True, "stop")
    assert seen["after"] is wrapper.signal
    assert seen["post"] is kit.abort.signal


async def test_a_wrapper_that_aborts_first_keeps_the_body_from_running(kit) -> None:
    ran: list[int] = []

    async def wrap(execution, proceed):
        wrapper = AbortController()
        wrapper.abort()
        execution.replace_signal(wrapper.signal)
        return await proceed()

    async def body(args, execution) -> None:
        ran.append(1)

    kit.root.on(TOOLS_EXECUTE, wrap)
    kit.add(body)
    outcome = await kit.call()
    assert (outcome.error.name, outcome.error.code) == ("AbortError", "ABORTED_BEFORE_DISPATCH")
    assert ran == []


async def test_a_pre_aborted_call_meets_no_policy_and_has_one_result(kit) -> None:
    trace = kit.trace()
    kit.add(hello)
    kit.abort.abort()
    outcome = await kit.call()
    assert (outcome.error.name, outcome.error.code) == ("AbortError", "ABORTED_BEFORE_DISPATCH")
    assert trace.seen == ["result"]


async def test_an_abort_during_policy_keeps_the_body_from_starting(kit) -> None:
    trace = kit.trace()

    async def policy(execution, proceed):
        kit.abort.abort()
        return await proceed()

    kit.root.on(TOOLS_PRE_EXECUTE, policy)
    kit.add(hello)
    assert (await kit.call()).error.code == "ABORTED_BEFORE_DISPATCH"
    assert trace.seen == ["pre", "post", "result"]


async def test_a_denial_stands_even_when_the_call_is_aborted_meanwhile(kit, text) -> None:
    async def policy(execution, proceed):
        kit.abort.abort()
        return Deny("no")

    kit.root.on(TOOLS_PRE_EXECUTE, policy)
    kit.add(hello)
    assert text(await kit.call()) == "Error: no"


async def test_an_abort_during_the_body_waits_for_it_and_keeps_its_contexts(kit) -> None:
    entered, finish = asyncio.Event(), asyncio.Event()
    settled: list[int] = []

    async def body(args, execution) -> str:
        execution.defer_context(kit.note("kept"))
        entered.set()
        await finish.wait()
        settled.append(1)
        return "done"

    kit.add(body)
    call = asyncio.ensure_future(kit.call())
    await entered.wait()
    kit.abort.abort()
    await asyncio.sleep(0)
    assert not call.done()
    finish.set()
    outcome = await call
    assert settled == [1]
    assert (outcome.error.name, outcome.error.code) == ("AbortError", "ABORTED")
    assert kit.notes(outcome) == ["kept"]


async def test_an_abort_during_post_policy_counts_as_during_the_body(kit) -> None:
    async def post(executed, proceed):
        kit.abort.abort()
        return await proceed()

    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(hello)
    assert (await kit.call()).error.code == "ABORTED"


async def test_a_body_that_honours_its_signal_is_aborted_in_the_same_words(kit, text) -> None:
    async def body(args, execution) -> None:
        kit.abort.abort({"kind": "user"})
        execution.signal.throw_if_aborted()

    kit.add(body)
    outcome = await kit.call()
    assert (outcome.error.name, outcome.error.code) == ("AbortError", "ABORTED")
    assert text(outcome) == (
        "Error: the call was stopped while it ran; what it had done by then stays done"
    )


async def test_a_failure_of_the_body_outlives_an_abort(kit) -> None:
    async def body(args, execution) -> None:
        kit.abort.abort()
        raise ToolError("late", code="TOOL_TIMEOUT")

    kit.add(body)
    assert (await kit.call()).error.code == "TOOL_TIMEOUT"
