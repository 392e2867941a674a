from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from dsh_cordis import AbortController, AbortedError, Context
from dsh_llm import PromptSection, ToolSchema
from dsh_lossless_json import FrozenDict
from dsh_scope import bind_scope_parent, create_scope
from dsh_system_prompt import (
    SYSTEM_PROMPT,
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_CHANGE,
    AssembleContext,
    Assembly,
    SystemPrompt,
    SystemPromptConfig,
    SystemPromptError,
    ToolContribution,
    render_prompt,
)
from msgspec.structs import replace

pytestmark = pytest.mark.anyio


class Key:
    """A scope key."""


@pytest.fixture
async def root(anyio_backend: str) -> AsyncIterator[Context]:
    async with Context() as context:
        yield context


async def mounted(root: Context, **config: object) -> SystemPrompt:
    await root.plugin(SystemPrompt, SystemPromptConfig(**config))  # type: ignore[arg-type]
    return root[SYSTEM_PROMPT]


def scoped(root: Context, key: object) -> SystemPrompt:
    prompt = create_scope(root, key).ctx.get(SYSTEM_PROMPT)
    assert prompt is not None
    return prompt


def names(assembly: Assembly) -> list[str]:
    return [section.name for section in assembly.sections]


def schemas(*tools: str) -> tuple[ToolSchema, ...]:
    return tuple(ToolSchema(name, "d", FrozenDict({"type": "object"})) for name in tools)


def offering(*tools: str, known: tuple[str, ...] | None = None):
    return lambda context: ToolContribution(schemas(*tools), known)


async def test_identity_comes_before_persona_before_tool_guidance(root: Context) -> None:
    prompt = await mounted(root, persona="P {{model}}")
    prompt.section("tool:t", order=100, text="T")
    prompt.variable("model", lambda context: "m")
    assembly = await prompt.assemble(AssembleContext())
    assert names(assembly) == ["harness:identity", "deployment:persona", "tool:t"]
    assert render_prompt(assembly) == (
        "You are an AI agent. You work through DeepSeek Harness (dsh), which runs the tools you "
        "call.\n\nP m\n\nT"
    )


async def test_identity_may_be_left_out_and_an_empty_persona_shows_nothing(root: Context) -> None:
    prompt = await mounted(root, include_harness_identity=False)
    assert render_prompt(await prompt.assemble(AssembleContext())) == ""


async def test_equal_orders_keep_the_order_of_registration(root: Context) -> None:
    prompt = await mounted(root, include_harness_identity=False)
    for name in ("b", "a", "c"):
        prompt.section(name, order=100, text=name)
    prompt.section("first", order=99.5, text="first")
    assembly = await prompt.assemble(AssembleContext())
    assert names(assembly) == ["deployment:persona", "first", "b", "a", "c"]


async def test_a_second_section_of_a_name_is_refused_and_the_first_stays(root: Context) -> None:
    prompt = await mounted(root)
    prompt.section("s", order=1, text="first")
    with pytest.raises(SystemPromptError) as caught:
        prompt.section("s", order=2, text="second")
    assert caught.value.code == "DUPLICATE_SECTION"
    assert "first" in render_prompt(await prompt.assemble(AssembleContext()))


@pytest.mark.parametrize("order", [float("nan"), float("inf")])
async def test_an_order_that_is_no_place_is_refused(root: Context, order: float) -> None:
    prompt = await mounted(root)
    for register in (prompt.section, prompt.context):
        with pytest.raises(SystemPromptError) as caught:
            register("s", order=order, text="")
        assert caught.value.code == "INVALID_ORDER"


async def test_a_scoped_persona_is_that_agents_alone_and_goes_with_its_scope(root: Context) -> None:
    prompt = await mounted(root, persona="deployment", include_harness_identity=False)
    key = Key()
    scope = create_scope(root, key)
    own = scope.ctx.get(SYSTEM_PROMPT)
    assert own is not None
    own.section("deployment:persona", order=0, text="own")

    async def text(scope: object) -> str:
        return render_prompt(await prompt.assemble(AssembleContext(scope=scope)))

    assert (await text(key), await text(Key())) == ("own", "deployment")
    await scope.dispose()
    assert await text(key) == "deployment"


async def test_a_nearer_scope_shadows_in_place_and_the_shadowed_text_is_not_made(
    root: Context,
) -> None:
    prompt = await mounted(root, include_harness_identity=False)
    made: list[str] = []

    def text(name: str):
        def make(context: AssembleContext) -> str:
            made.append(name)
            return name

        return make

    parent, child = Key(), Key()
    bind_scope_parent(child, parent)
    prompt.section("a", order=1, text=text("global"))
    prompt.section("b", order=1, text="b")
    scoped(root, parent).section("a", order=1, text=text("parent"))
    scoped(root, child).section("a", order=1, text=text("child"))
    assembly = await prompt.assemble(AssembleContext(scope=child))
    assert render_prompt(assembly) == "child\n\nb"
    assert made == ["child"]


async def test_an_assembly_keeps_its_templates_and_is_fresh_each_time(root: Context) -> None:
    prompt = await mounted(root, persona="on {{day}}")
    days = ["Monday", "Tuesday"]
    prompt.variable("day", lambda context: days.pop(0))
    first = await prompt.assemble(AssembleContext())
    second = await prompt.assemble(AssembleContext())
    assert first.sections[1] == PromptSection("deployment:persona", "on {{day}}")
    assert (first.variables, second.variables) == ({"day": "Monday"}, {"day": "Tuesday"})


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "a b", "_a"])
async def test_a_variable_needs_a_plain_name(root: Context, name: str) -> None:
    prompt = await mounted(root)
    with pytest.raises(SystemPromptError) as caught:
        prompt.variable(name, lambda context: "")
    assert caught.value.code == "INVALID_VARIABLE_NAME"


async def test_tools_come_by_name_from_the_providers_of_every_layer(root: Context) -> None:
    prompt = await mounted(root)
    key = Key()
    prompt.tools(offering("b", "d"))
    scoped(root, key).tools(offering("c", "a"))
    assembly = await prompt.assemble(AssembleContext(scope=key))
    assert [tool.name for tool in assembly.tools] == ["a", "b", "c", "d"]


async def test_a_configured_order_places_listed_tools_around_the_rest(root: Context) -> None:
    prompt = await mounted(root, tool_order=("todo_write", "<unlisted-tools>", "bash"))
    prompt.tools(offering("bash", "echo_b", "todo_write", "echo_a"))
    assembly = await prompt.assemble(AssembleContext())
    assert [tool.name for tool in assembly.tools] == ["todo_write", "echo_a", "echo_b", "bash"]


async def test_an_order_that_names_a_tool_nobody_knows_fails_the_assembly(root: Context) -> None:
    prompt = await mounted(root, tool_order=("ghost", "<unlisted-tools>"))
    prompt.tools(offering("bash"))
    with pytest.raises(SystemPromptError, match="'ghost'; known tools: bash") as caught:
        await prompt.assemble(AssembleContext())
    assert caught.value.code == "UNKNOWN_TOOL"


async def test_an_order_may_name_a_known_tool_that_is_hidden(root: Context) -> None:
    prompt = await mounted(root, tool_order=("hidden", "<unlisted-tools>"))
    prompt.tools(offering("bash", known=("bash", "hidden")))
    assert len((await prompt.assemble(AssembleContext())).tools) == 1


@pytest.mark.parametrize(
    "order",
    [(), ("bash",), ("<unlisted-tools>", "<unlisted-tools>"), ("a", "a", "<unlisted-tools>")],
)
async def test_an_order_without_one_marker_or_with_repeats_fails_at_load(
    root: Context, order: tuple[str, ...]
) -> None:
    with pytest.raises(SystemPromptError) as caught:
        await mounted(root, tool_order=order)
    assert caught.value.code == "INVALID_TOOL_ORDER"


async def test_a_tool_named_like_the_marker_is_always_refused(root: Context) -> None:
    prompt = await mounted(root)
    prompt.tools(offering("<unlisted-tools>"))
    with pytest.raises(SystemPromptError) as caught:
        await prompt.assemble(AssembleContext())
    assert caught.value.code == "RESERVED_TOOL_NAME"


async def test_what_a_listener_adds_stays_where_it_put_it(root: Context) -> None:
    prompt = await mounted(root)
    prompt.tools(offering("b", "a"))

    async def add(payload, proceed):
        assembly = await proceed()
        return replace(assembly, tools=(*schemas("z"), *assembly.tools))

    root.on(SYSTEM_PROMPT_ASSEMBLE, add)
    assembly = await prompt.assemble(AssembleContext())
    assert [tool.name for tool in assembly.tools] == ["z", "a", "b"]


async def test_listeners_of_one_scope_do_not_hear_the_assembly_of_another(root: Context) -> None:
    prompt = await mounted(root)
    heard: list[object] = []
    one, other = Key(), Key()

    async def listen(payload, proceed):
        heard.append(payload.context.scope)
        return await proceed()

    create_scope(root, one).ctx.on(SYSTEM_PROMPT_ASSEMBLE, listen)
    for scope in (one, other, None):
        await prompt.assemble(AssembleContext(scope=scope))
    assert heard == [one]


async def test_a_complete_section_is_the_whole_prompt_whatever_listeners_do(root: Context) -> None:
    prompt = await mounted(root, persona="P")
    key = Key()
    scoped(root, key).section("whole", order=5, text="Only this.", complete=True)

    async def meddle(payload, proceed):
        assembly = await proceed()
        changed = PromptSection("whole", "changed")
        return replace(assembly, sections=(*assembly.sections[:1], changed))

    root.on(SYSTEM_PROMPT_ASSEMBLE, meddle)
    assembly = await prompt.assemble(AssembleContext(scope=key))
    assert assembly.sections == (PromptSection("whole", "Only this."),)


async def test_two_complete_sections_are_refused(root: Context) -> None:
    prompt = await mounted(root)
    for name in "ab":
        prompt.section(name, order=1, text=name, complete=True)
    with pytest.raises(SystemPromptError) as caught:
        await prompt.assemble(AssembleContext())
    assert caught.value.code == "SEVERAL_COMPLETE_SECTIONS"


async def test_contexts_stand_apart_from_the_system_prompt(root: Context) -> None:
    prompt = await mounted(root, include_harness_identity=False)
    prompt.context("late", order=2, text="2")
    prompt.context("early", order=1, text=lambda context: "1")
    assembly = await prompt.assemble(AssembleContext())
    assert [section.name for section in assembly.contexts] == ["early", "late"]
    assert render_prompt(assembly) == ""


@pytest.mark.parametrize("by_config", [True, False])
async def test_suppressed_contexts_are_neither_made_nor_let_in(
    root: Context, *, by_config: bool
) -> None:
    prompt = await mounted(root, include_runtime_context=not by_config)
    made: list[int] = []
    prompt.context("c", order=1, text=lambda context: str(made.append(1)))

    async def add(payload, proceed):
        return replace(await proceed(), contexts=(PromptSection("x", "x"),))

    root.on(SYSTEM_PROMPT_ASSEMBLE, add)
    if not by_config:
        lift = prompt.suppress_runtime_context()
    assert (await prompt.assemble(AssembleContext())).contexts == ()
    assert made == []
    if not by_config:
        lift()
        assert (await prompt.assemble(AssembleContext())).contexts[0].name == "x"
        assert made == [1]


async def test_changes_are_told_and_a_raising_listener_rolls_the_section_back(
    root: Context,
) -> None:
    prompt = await mounted(root)
    changes: list[object] = []
    root.on(SYSTEM_PROMPT_CHANGE, lambda change: changes.append(change.scope))
    key = Key()
    scoped(root, key).section("s", order=1, text="")()
    assert changes == [key, key]

    def refuse(change) -> None:
        raise RuntimeError("no")

    stop = root.on(SYSTEM_PROMPT_CHANGE, refuse)
    with pytest.raises(RuntimeError):
        prompt.section("s", order=1, text="")
    stop()
    prompt.section("s", order=1, text="")


async def test_registrations_go_with_the_plugin_that_made_them(root: Context) -> None:
    prompt = await mounted(root, include_harness_identity=False)

    def apply(ctx: Context, config: object) -> None:
        service = ctx[SYSTEM_PROMPT]
        service.section("s", order=1, text="S")
        service.context("c", order=1, text="C")
        service.variable("v", lambda context: "V")
        service.tools(offering("t"))

    fiber = await root.plugin(apply, inject=(SYSTEM_PROMPT,))
    full = await prompt.assemble(AssembleContext())
    assert (len(full.sections), len(full.contexts), len(full.tools)) == (2, 1, 1)
    await fiber.dispose()
    bare = await prompt.assemble(AssembleContext())
    assert bare == Assembly(sections=bare.sections[:1], variables={})


async def test_an_aborted_assembly_raises_the_reason(root: Context) -> None:
    prompt = await mounted(root)
    abort = AbortController()

    async def stop(payload, proceed):
        abort.abort("user")
        return await proceed()

    root.on(SYSTEM_PROMPT_ASSEMBLE, stop)
    with pytest.raises(AbortedError) as caught:
        await prompt.assemble(AssembleContext(signal=abort.signal))
    assert caught.value.reason == "user"
