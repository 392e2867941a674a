from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import msgspec
import pytest
from dsh_cordis import CordisError
from dsh_llm import TextBlock
from dsh_tools import (
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    Accept,
    Allow,
    Ask,
    Block,
    CallToken,
    Deny,
    ToolError,
    ToolSuccess,
)
from msgspec.structs import replace

pytestmark = pytest.mark.anyio


async def hello(args, execution) -> str:
    return "hello"


async def test_a_call_passes_its_stages_in_order(kit, text) -> None:
    trace = kit.trace()

    async def body(args, execution) -> str:
        trace.seen.append("body")
        return "hello"

    kit.add(body)
    outcome = await kit.call()
    assert trace.seen == ["pre", "execute", "body", "post", "result"]
    assert (outcome.is_error, outcome.value, text(outcome)) == (False, "hello", "hello")
    assert trace.results[0].outcome is outcome


async def test_policies_see_converted_arguments_and_cannot_change_them(kit) -> None:
    class Params(msgspec.Struct):
        n: int

    seen: list[Any] = []

    async def body(args: Params, execution) -> int:
        seen.append((args, execution.arguments))
        return args.n

    async def policy(execution, proceed):
        seen.append(execution.arguments)
        with pytest.raises(TypeError):
            execution.arguments["n"] = 8
        return await proceed()

    kit.add(body, params=Params)
    kit.root.on(TOOLS_PRE_EXECUTE, policy)
    sent = {"n": "7"}
    outcome = await kit.call(sent)
    assert outcome.value == 7
    assert seen == [{"n": 7}, (Params(7), {"n": 7})]
    assert sent == {"n": "7"}


async def test_a_listener_cannot_make_another_call_of_it(kit) -> None:
    async def rewrite(execution, proceed):
        for name in ("arguments", "name", "agent", "signal"):
            with pytest.raises(AttributeError):
                setattr(execution, name, None)
        return await proceed()

    kit.root.on(TOOLS_PRE_EXECUTE, rewrite)
    kit.add(hello)
    assert (await kit.call()).value == "hello"


async def test_arguments_that_do_not_fit_end_the_call_before_any_policy(kit, text) -> None:
    class Params(msgspec.Struct):
        n: float

    trace = kit.trace()
    ran: list[object] = []

    async def body(args, execution) -> None:
        ran.append(args)

    kit.add(body, params=Params)
    outcome = await kit.call({"n": True})
    assert (outcome.error.name, outcome.error.code) == ("ToolArgsError", "INVALID_ARGS")
    assert text(outcome) == "Error: invalid arguments: n: expected a number, got a boolean (true)"
    assert trace.seen == ["result"]
    assert ran == []


async def test_malformed_arguments_are_answered_with_their_start(kit, text) -> None:
    kit.add(hello)
    outcome = await kit.call('{"n": ')
    assert outcome.error.code == "INVALID_ARGS"
    assert """they start with '{"n": '""" in text(outcome)


async def test_a_denial_is_shown_as_its_reason_and_judged_but_not_run(kit, text) -> None:
    trace = kit.trace()

    async def deny(execution, proceed):
        return Deny("no")

    kit.root.on(TOOLS_PRE_EXECUTE, deny)
    kit.add(hello)
    outcome = await kit.call()
    assert text(outcome) == "Error: no"
    assert (outcome.error.name, outcome.error.code) == (None, None)
    assert trace.seen == ["pre", "post", "result"]


@pytest.mark.parametrize(("reason", "shown"), [("only you", "only you"), (None, "nobody can be")])
async def test_an_ask_denies_where_nobody_can_be_asked(kit, text, reason, shown) -> None:
    async def ask(execution, proceed):
        return Ask(reason)

    kit.root.on(TOOLS_PRE_EXECUTE, ask)
    kit.add(hello)
    outcome = await kit.call()
    assert outcome.is_error
    assert shown in text(outcome)


async def test_an_error_in_policy_keeps_name_and_code_and_skips_post_policy(kit) -> None:
    trace = kit.trace()

    class PolicyError(CordisError):
        pass

    async def fail(execution, proceed):
        raise PolicyError("broken", code="BROKEN")

    kit.root.on(TOOLS_PRE_EXECUTE, fail)
    kit.add(hello)
    outcome = await kit.call()
    assert (outcome.error.name, outcome.error.code) == ("PolicyError", "BROKEN")
    assert trace.seen == ["pre", "result"]


async def test_an_answer_that_is_no_decision_is_a_failure(kit, text) -> None:
    async def confused(execution, proceed):
        return True

    kit.root.on(TOOLS_PRE_EXECUTE, confused)
    kit.add(hello)
    assert "gave a bool, not a decision" in text(await kit.call())


async def test_an_unknown_tool_is_judged_and_names_what_there_is(kit, text) -> None:
    trace = kit.trace()
    kit.add(hello)
    outcome = await kit.call(name="nope")
    assert outcome.error.code == "UNKNOWN_TOOL"
    assert text(outcome) == "Error: unknown tool 'nope'; available: t"
    assert trace.seen == ["pre", "execute", "post", "result"]


async def test_a_body_error_is_a_failure_inside_the_wrappers(kit, text) -> None:
    inside: list[Any] = []

    async def wrap(execution, proceed):
        inside.append(await proceed())
        return inside[0]

    async def body(args, execution) -> None:
        raise ToolError("disk full", code="DISK_FULL")

    kit.root.on(TOOLS_EXECUTE, wrap)
    kit.add(body)
    outcome = await kit.call()
    assert inside[0].is_error
    assert (outcome.error.name, outcome.error.code) == ("ToolError", "DISK_FULL")
    assert text(outcome) == "Error: disk full"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("boom"), "Error: boom"),
        (ValueError(), "Error: ValueError"),
        (KeyError("x"), "Error: KeyError: 'x'"),
        (SystemExit(3), "tried to exit the process (3)"),
        (ExceptionGroup("many", [ValueError("a")]), "Error: many"),
    ],
)
async def test_whatever_a_body_raises_is_an_outcome(kit, text, error, shown) -> None:
    async def body(args, execution) -> None:
        raise error

    kit.add(body)
    assert shown in text(await kit.call())


async def test_a_wrapper_that_answers_itself_runs_no_body(kit, text) -> None:
    async def cached(execution, proceed):
        return ToolSuccess(value="cached", content=(TextBlock("cached"),))

    ran: list[int] = []

    async def body(args, execution) -> str:
        ran.append(1)
        return "fresh"

    kit.root.on(TOOLS_EXECUTE, cached)
    kit.add(body)
    assert text(await kit.call()) == "cached"
    assert ran == []
    kit.abort.abort()


async def test_a_wrapper_is_held_to_the_tools_output_type(kit) -> None:
    async def wrong(execution, proceed):
        return ToolSuccess(value=7, content=())

    async def body(args, execution) -> str:
        return ""

    kit.root.on(TOOLS_EXECUTE, wrong)
    kit.add(body)
    assert (await kit.call()).error.code == "INVALID_TOOL_OUTPUT"


async def test_an_output_of_the_wrong_shape_is_an_error(kit) -> None:
    class Value(msgspec.Struct):
        n: int

    async def body(args, execution) -> Value:
        return Value("seven")  # type: ignore[arg-type]

    kit.add(body, output=Value)
    outcome = await kit.call()
    assert (outcome.error.name, outcome.error.code) == ("ToolOutputError", "INVALID_TOOL_OUTPUT")
    assert "value.n" in outcome.error.message or "n: expected an integer" in outcome.error.message


@pytest.mark.parametrize("value", [float("nan"), object(), {1: {2}}, -0.0])
async def test_an_output_that_json_cannot_carry_is_an_error(kit, value) -> None:
    async def body(args, execution):
        return value

    kit.add(body)
    assert (await kit.call()).error.code == "INVALID_TOOL_OUTPUT"


async def test_a_renderer_that_raises_is_an_output_error(kit) -> None:
    def render(args, value):
        raise RuntimeError("no")

    kit.add(hello, render=render)
    assert (await kit.call()).error.code == "INVALID_TOOL_OUTPUT"


async def test_what_a_tool_shows_and_keeps_follows_from_args_and_value(kit, text) -> None:
    class Params(msgspec.Struct):
        n: int

    class Value(msgspec.Struct):
        square: int

    async def body(args: Params, execution) -> Value:
        return Value(args.n**2)

    kit.add(
        body,
        params=Params,
        output=Value,
        render=lambda args, value: f"{args.n} -> {value.square}",
        presentation_meta=lambda args, value: {"n": args.n},
    )
    outcome = await kit.call({"n": 3})
    assert (text(outcome), outcome.value, outcome.meta) == ("3 -> 9", {"square": 9}, {"n": 3})


async def test_a_nested_call_has_no_meta(kit) -> None:
    kit.add(hello, presentation_meta=lambda args, value: {"a": 1})
    assert (await kit.call(parent=CallToken())).meta is msgspec.UNSET
    assert (await kit.call()).meta == {"a": 1}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        ("", "(no output)"),
        (None, "(no output)"),
        ({"a": [1, True]}, '{"a":[1,true]}'),
        (0, "0"),
    ],
)
async def test_without_a_renderer_text_is_text_and_the_rest_is_json(
    kit, text, value, shown
) -> None:
    async def body(args, execution):
        return value

    kit.add(body)
    assert text(await kit.call()) == shown


async def test_bytes_that_are_no_text_are_repaired_once_everywhere(kit, text) -> None:
    async def body(args, execution) -> dict[str, str]:
        execution.defer_context(kit.note("c\0"))
        return {"out": "a\0b\ud800"}

    kit.add(
        body,
        render=lambda args, value: value["out"] + "\udfff",
        presentation_meta=lambda args, value: {"m": "x\0"},
    )
    outcome = await kit.call()
    assert text(outcome) == "a\ufffdb\ufffd\ufffd"
    assert outcome.value == {"out": "a\ufffdb\ufffd"}
    assert outcome.meta == {"m": "x\ufffd"}
    assert kit.notes(outcome) == ["c\ufffd"]


async def test_an_error_with_bytes_that_are_no_text_is_repaired_too(kit, text) -> None:
    async def body(args, execution) -> None:
        raise ToolError("no file 'a\udcff'")

    kit.add(body)
    assert text(await kit.call()) == "Error: no file 'a\ufffd'"


async def test_contexts_come_in_the_order_tool_wrapper_decision(kit) -> None:
    async def body(args, execution) -> None:
        execution.defer_context(kit.note("tool"))

    async def wrap(execution, proceed):
        return replace(await proceed(), additional_contexts=(kit.note("wrapper"),))

    async def post(executed, proceed):
        return Accept(additional_contexts=(kit.note("decision"),))

    kit.root.on(TOOLS_EXECUTE, wrap)
    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(body)
    assert kit.notes(await kit.call()) == ["tool", "wrapper", "decision"]


async def test_a_raising_body_keeps_its_contexts_and_a_block_drops_them(kit, text) -> None:
    async def body(args, execution) -> None:
        execution.defer_context(kit.note("tool"))
        raise ToolError("bad")

    kit.add(body)
    assert kit.notes(await kit.call()) == ["tool"]

    async def post(executed, proceed):
        return Block(feedback="not so", additional_contexts=(kit.note("why"),))

    kit.root.on(TOOLS_POST_EXECUTE, post)
    outcome = await kit.call()
    assert kit.notes(outcome) == ["why"]
    assert text(outcome) == "Error: not so"


async def test_a_raising_wrapper_keeps_what_the_body_deferred(kit, text) -> None:
    async def body(args, execution) -> None:
        execution.defer_context(kit.note("tool"))

    async def wrap(execution, proceed):
        await proceed()
        raise ToolError("wrapper broke")

    trace = kit.trace()
    kit.root.on(TOOLS_EXECUTE, wrap)
    kit.add(body)
    outcome = await kit.call()
    assert (text(outcome), kit.notes(outcome)) == ("Error: wrapper broke", ["tool"])
    assert trace.seen == ["pre", "execute", "result"]


async def test_post_policy_may_replace_content_and_keeps_the_value(kit, text) -> None:
    async def post(executed, proceed):
        return Accept(content=(TextBlock("short"),))

    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(hello, presentation_meta=lambda args, value: [1])
    outcome = await kit.call()
    assert (outcome.value, text(outcome), outcome.meta) == ("hello", "short", (1,))


async def test_a_value_of_post_policy_is_checked_and_shown_again(kit, text) -> None:
    values: list[object] = ["bye", 7]

    async def post(executed, proceed):
        return Accept(value=values.pop(0))

    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(
        hello, output=str, render=lambda args, v: f"<{v}>", presentation_meta=lambda args, v: len(v)
    )
    outcome = await kit.call()
    assert (outcome.value, text(outcome), outcome.meta) == ("bye", "<bye>", 3)
    assert (await kit.call()).error.code == "INVALID_TOOL_OUTPUT"


async def test_content_and_value_together_are_an_error(kit, text) -> None:
    async def post(executed, proceed):
        return Accept(content=(), value="x")

    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(hello)
    assert "both content and value" in text(await kit.call())


async def test_a_value_for_a_failed_call_is_an_error(kit, text) -> None:
    async def post(executed, proceed):
        return Accept(value="x")

    kit.root.on(TOOLS_POST_EXECUTE, post)
    assert "a value to a failed call" in text(await kit.call(name="nope"))


async def test_content_that_is_no_content_is_an_error_and_not_a_crash(kit) -> None:
    async def post(executed, proceed):
        return Accept(content=("plain text",))  # type: ignore[arg-type]

    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(hello)
    assert (await kit.call()).is_error


async def test_an_error_in_post_policy_is_a_failure_with_the_contexts(kit, text) -> None:
    async def body(args, execution) -> None:
        execution.defer_context(kit.note("tool"))

    async def post(executed, proceed):
        raise ToolError("judge fell ill", code="ILL")

    kit.root.on(TOOLS_POST_EXECUTE, post)
    kit.add(body)
    outcome = await kit.call()
    assert (outcome.error.code, kit.notes(outcome)) == ("ILL", ["tool"])


async def test_a_finalizer_has_the_last_word_on_the_content_of_every_outcome(kit, text) -> None:
    def last(execution, outcome):
        return "stopped" if outcome.is_error else None

    kit.add(hello, finalize_content=last)
    assert text(await kit.call()) == "hello"
    kit.abort.abort()
    outcome = await kit.call()
    assert (text(outcome), outcome.error.code) == ("stopped", "ABORTED_BEFORE_DISPATCH")


async def test_a_finalizer_is_the_one_of_the_call_even_if_the_tool_goes_meanwhile(
    kit, text
) -> None:
    definition = kit.add(hello, name="other", finalize_content=lambda execution, outcome: "last")
    remove: list[Any] = []

    async def post(executed, proceed):
        remove[0]()
        return await proceed()

    kit.root.on(TOOLS_POST_EXECUTE, post)
    remove.append(kit.tools.register(replace_name(definition, "t")))
    assert text(await kit.call()) == "last"
    assert kit.tools.get("t") is None


def replace_name(definition: Any, name: str) -> Any:
    return dataclasses.replace(definition, name=name)


async def test_a_raising_finalizer_is_an_error_and_not_run_again(kit, text) -> None:
    runs: list[int] = []

    def last(execution, outcome):
        runs.append(1)
        raise RuntimeError("finalizer broke")

    kit.add(hello, finalize_content=last)
    assert text(await kit.call()) == "Error: finalizer broke"
    assert runs == [1]


async def test_a_call_that_succeeds_may_conclude_the_turn(kit) -> None:
    fails = [True, False]

    async def body(args, execution) -> None:
        execution.conclude_turn()
        if fails.pop(0):
            raise ToolError("not yet")

    kit.add(body)
    assert (await kit.call()).is_error
    assert (await kit.call()).concludes_turn is True


async def test_the_bodys_own_methods_are_closed_to_others(kit) -> None:
    kept: list[Any] = []

    async def policy(execution, proceed):
        for call in (lambda: execution.defer_context(kit.note("x")), execution.conclude_turn):
            with pytest.raises(ToolError) as caught:
                call()
            kept.append(caught.value.code)
        with pytest.raises(ToolError):
            execution.replace_signal(kit.abort.signal)
        return await proceed()

    kit.root.on(TOOLS_PRE_EXECUTE, policy)
    kit.add(hello)
    assert not (await kit.call()).is_error
    assert kept == ["WRONG_STAGE", "WRONG_STAGE"]


async def test_a_raising_result_listener_does_not_stop_the_others(kit, caplog) -> None:
    heard: list[int] = []

    def broken(executed):
        raise RuntimeError("observer")

    kit.root.on(TOOLS_RESULT, broken)
    kit.root.on(TOOLS_RESULT, lambda executed: heard.append(1))
    kit.add(hello)
    with caplog.at_level(logging.CRITICAL):
        assert not (await kit.call()).is_error
    assert heard == [1]


async def test_only_bodies_overlap_between_prepare_and_finalize(kit) -> None:
    trace = kit.trace()
    gate = asyncio.Event()

    async def body(args, execution) -> str:
        await gate.wait()
        return execution.call_id

    kit.add(body)
    runs = [kit.tools.begin(kit.request()) for _ in range(2)]
    for run in runs:
        assert await run.prepare()
    bodies = [asyncio.ensure_future(run.dispatch()) for run in runs]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*bodies)
    assert trace.seen == ["pre", "pre", "execute", "execute"]
    for run in runs:
        assert (await run.finalize()).value == "c1"
    assert trace.seen[4:] == ["post", "result", "post", "result"]


async def test_stages_out_of_order_are_a_mistake_of_the_caller(kit) -> None:
    kit.add(hello)
    run = kit.tools.begin(kit.request())
    for stage in (run.dispatch, run.finalize):
        with pytest.raises(ToolError) as caught:
            await stage()
        assert caught.value.code == "WRONG_STAGE"


async def test_the_root_call_is_the_call_itself_unless_it_serves_another(kit) -> None:
    seen: list[str] = []

    async def body(args, execution) -> None:
        seen.append(execution.root_call_id)

    kit.add(body)
    await kit.call()
    await kit.call(root_call_id="outer")
    assert seen == ["c1", "outer"]


async def test_an_allow_by_a_listener_lets_the_call_run(kit) -> None:
    async def allow(execution, proceed):
        return Allow()

    kit.root.on(TOOLS_PRE_EXECUTE, allow)
    kit.add(hello)
    assert not (await kit.call()).is_error
