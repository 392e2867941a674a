from __future__ import annotations

import msgspec
import pytest
from dsh_cordis import Context, ServiceKey
from dsh_scope import bind_scope_parent
from dsh_system_prompt import SYSTEM_PROMPT, AssembleContext
from dsh_tools import (
    TOOLS,
    TOOLS_CHANGE,
    TOOLS_PRE_EXECUTE,
    ToolError,
    ToolExecution,
    define_tool,
    tool,
)

pytestmark = pytest.mark.anyio


def named(name: str, description: str = "d"):
    async def body(args, execution) -> str:
        return description

    return define_tool(name=name, description=description, params={"type": "object"}, execute=body)


def names(kit, scope=None) -> list[str]:
    return [schema.name for schema in kit.tools.schemas(scope)]


async def test_a_second_global_tool_of_a_name_is_refused_and_the_first_stays(kit) -> None:
    first = named("t")
    kit.tools.register(first)
    with pytest.raises(ToolError, match="through an agent's context") as caught:
        kit.tools.register(named("t"))
    assert caught.value.code == "DUPLICATE_TOOL"
    assert kit.tools.get("t") is first


async def test_a_scoped_tool_shadows_for_its_agent_alone(kit, text) -> None:
    one, other = kit.agent("one"), kit.agent("other")
    kit.tools.register(named("t", "for all"))
    one.tools.register(named("t", "for one"))
    assert text(await kit.call(agent=one)) == "for one"
    assert text(await kit.call(agent=other)) == "for all"
    assert text(await kit.call()) == "for all"
    assert [schema.description for schema in kit.tools.schemas(one)] == ["for one"]


async def test_a_child_scope_sees_what_its_parent_has(kit) -> None:
    parent, child = kit.agent("parent"), kit.agent("child")
    bind_scope_parent(child, parent)
    parent.tools.register(named("p"))
    assert names(kit, child) == ["p"]
    assert names(kit) == []


async def test_disposing_a_scope_takes_its_tools_and_leaves_the_global_ones(kit) -> None:
    agent = kit.agent()
    kit.tools.register(named("g"))
    agent.tools.register(named("a"))
    assert names(kit, agent) == ["g", "a"]
    await agent.scope.dispose()
    assert names(kit, agent) == ["g"]


async def test_a_tool_goes_with_the_plugin_that_registered_it(kit) -> None:
    def apply(ctx: Context, config: object) -> None:
        ctx[TOOLS].register(named("mine"))

    fiber = await kit.root.plugin(apply, inject=(TOOLS,))
    assert names(kit) == ["mine"]
    await fiber.dispose()
    assert names(kit) == []


async def test_a_disposer_removes_its_own_registration_once(kit) -> None:
    remove = kit.tools.register(named("t"))
    remove()
    again = named("t")
    kit.tools.register(again)
    remove()
    assert kit.tools.get("t") is again


async def test_changes_are_told_and_a_raising_listener_rolls_the_tool_back(kit) -> None:
    changes: list[object] = []
    kit.root.on(TOOLS_CHANGE, lambda change: changes.append(change.scope))
    agent = kit.agent()
    agent.tools.register(named("t"))()
    assert changes == [agent, agent]

    def refuse(change) -> None:
        raise RuntimeError("no")

    stop = kit.root.on(TOOLS_CHANGE, refuse)
    with pytest.raises(RuntimeError):
        kit.tools.register(named("t"))
    stop()
    assert kit.tools.get("t") is None


async def test_the_tools_of_a_scope_are_in_its_prompt(kit) -> None:
    agent = kit.agent()
    kit.tools.register(named("b"))
    agent.tools.register(named("a"))
    prompt = kit.root[SYSTEM_PROMPT]
    seen = await prompt.assemble(AssembleContext(scope=agent))
    assert [schema.name for schema in seen.tools] == ["a", "b"]
    everyone = await prompt.assemble(AssembleContext())
    assert [schema.name for schema in everyone.tools] == ["b"]


async def test_policies_of_one_agent_do_not_hear_calls_of_another(kit) -> None:
    one, other = kit.agent("one"), kit.agent("other")
    kit.tools.register(named("t"))
    heard: list[object] = []

    def listener(who: str):
        async def listen(execution, proceed):
            heard.append(who)
            return await proceed()

        return listen

    one.ctx.on(TOOLS_PRE_EXECUTE, listener("one"))
    kit.root.on(TOOLS_PRE_EXECUTE, listener("everyone"))
    await kit.call(agent=one)
    await kit.call(agent=other)
    await kit.call()
    assert heard == ["one", "everyone", "everyone", "everyone"]


class Params(msgspec.Struct):
    n: int


async def test_only_exactly_true_for_valid_arguments_is_parallel(kit) -> None:
    async def body(args, execution) -> None: ...

    def broken(args: Params) -> bool:
        raise RuntimeError("no")

    for name, safe in {
        "yes": True,
        "no": False,
        "truthy": lambda args: 1,
        "even": lambda args: args.n % 2 == 0,
        "broken": broken,
    }.items():
        kit.add(body, name=name, params=Params, is_concurrency_safe=safe)

    def mode(name: str, arguments: object) -> str:
        return kit.tools.execution_mode(kit.request(arguments, name=name))

    assert mode("yes", {"n": 1}) == "parallel"
    assert mode("yes", {"n": "x"}) == "exclusive"
    assert mode("no", {"n": 1}) == "exclusive"
    assert mode("truthy", {"n": 1}) == "exclusive"
    assert (mode("even", {"n": "2"}), mode("even", {"n": 3})) == ("parallel", "exclusive")
    assert mode("broken", {"n": 1}) == "exclusive"
    assert mode("unknown", {"n": 1}) == "exclusive"


async def test_arguments_are_converted_once_for_mode_and_call(kit) -> None:
    built: list[int] = []

    class Counted(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            built.append(self.n)

    async def body(args: Counted, execution) -> int:
        return args.n

    kit.add(body, params=Counted, output=int, is_concurrency_safe=True)
    request = kit.request({"n": "4"})
    assert kit.tools.execution_mode(request) == "parallel"
    assert (await kit.tools.execute(request)).value == 4
    assert built == [4]


async def test_the_rules_of_the_arguments_own_type_are_argument_errors(kit, text) -> None:
    class Pair(msgspec.Struct):
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low must not be above high")

    async def body(args: Pair, execution) -> None: ...

    kit.add(body, params=Pair)
    outcome = await kit.call({"low": 2, "high": 1})
    assert outcome.error.code == "INVALID_ARGS"
    assert "low must not be above high" in text(outcome)


async def test_a_function_tool_gets_its_parameters_by_name_and_its_call(kit) -> None:
    kit.tools.register(repeat)
    outcome = await kit.call({"text": "a", "times": "3"}, name="repeat")
    assert outcome.value == "c1: aaa"
    assert (await kit.call({"text": "a"}, name="repeat")).value == "c1: aa"


@tool
async def repeat(text: str, execution: ToolExecution, times: int = 2) -> str:
    """Say it again."""
    return f"{execution.call_id}: {text * times}"


async def test_the_registry_refuses_configuration_that_it_does_not_know() -> None:
    from dsh_cordis import ConfigError, validate_config
    from dsh_tools import ToolRegistry

    assert ToolRegistry.provides == ServiceKey("tools")
    with pytest.raises(ConfigError):
        validate_config(ToolRegistry.Config, {"mode": "code"}, where="tools")


async def test_a_bare_function_is_refused_with_the_way_to_make_it_a_tool(kit):
    async def roll() -> int:
        return 4

    with pytest.raises(TypeError, match="decorate it with @tool"):
        kit.tools.register(roll)
