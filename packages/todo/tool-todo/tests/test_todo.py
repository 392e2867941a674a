from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import pytest
from dsh_cordis import AbortController, ConfigError, Context, validate_config
from dsh_cordis_loader import LOADER, EntryPoints, Loader, LoaderOptions, parse_rows, read_yaml
from dsh_llm import SessionId
from dsh_lossless_json import thaw
from dsh_session import Session
from dsh_system_prompt import SYSTEM_PROMPT, AssembleContext, SystemPrompt
from dsh_tool_todo import TODO_WRITE, Todo, TodoConfig, TodoTool
from dsh_tools import TOOLS, ToolCallRequest, ToolOutcome, ToolRegistry

pytestmark = pytest.mark.anyio

PENDING = {"content": "a", "status": "pending"}
ACTIVE = {"content": "b", "status": "in_progress"}
ALSO_ACTIVE = {"content": "c", "status": "in_progress"}
DONE = {"content": "d", "status": "completed"}


@dataclass(eq=False)
class Caller:
    """An agent as far as tools see it."""

    id: SessionId
    session: Session
    ctx: Context


class Kit:
    def __init__(self, root: Context) -> None:
        self.root = root
        session = Session.create(SessionId("s"))
        self.agent = Caller(session.id, session, root)

    async def mount(self, *, parallel: bool = False) -> None:
        await self.root.plugin(TodoTool, TodoConfig(allow_parallel_in_progress=parallel))

    async def write(self, *todos: Any, agent: bool = True, **more: Any) -> ToolOutcome:
        request = ToolCallRequest(
            call_id="c1",
            name="todo_write",
            arguments={"todos": list(todos), **more},
            signal=AbortController().signal,
            agent=self.agent if agent else None,
        )
        return await self.root[TOOLS].execute(request)

    def logged(self) -> list[tuple[Todo, ...]]:
        return [event.data.todos for event in self.agent.session.events if TODO_WRITE.of(event)]


@pytest.fixture
async def kit(anyio_backend: str) -> AsyncIterator[Kit]:
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(ToolRegistry)
        yield Kit(root)


async def test_a_list_is_logged_counted_and_told(kit) -> None:
    await kit.mount()
    outcome = await kit.write(PENDING, ACTIVE, DONE)
    assert thaw(outcome.value) == {
        "todos": [PENDING, ACTIVE, DONE],
        "counts": {"pending": 1, "inProgress": 1, "completed": 1},
    }
    (block,) = outcome.content
    assert block.text == "List written: 1 completed, 1 in progress, 1 pending."
    (event,) = kit.agent.session.events
    assert (event.type, event.ignorable) == ("todo/write", False)
    assert event.raw == (
        b'{"todos":[{"content":"a","status":"pending"},{"content":"b","status":"in_progress"},'
        b'{"content":"d","status":"completed"}]}'
    )


async def test_a_second_call_replaces_the_list_and_an_empty_one_clears_it(kit) -> None:
    await kit.mount()
    await kit.write(PENDING)
    await kit.write(DONE)
    outcome = await kit.write()
    assert outcome.content[0].text == "The list is empty."
    assert kit.logged() == [(Todo("a", "pending"),), (Todo("d", "completed"),), ()]


async def test_a_list_that_came_as_json_text_is_taken(kit) -> None:
    await kit.mount()
    request = ToolCallRequest(
        call_id="c1",
        name="todo_write",
        arguments={"todos": '[{"content":"a","status":"pending"}]'},
        signal=AbortController().signal,
        agent=kit.agent,
    )
    assert not (await kit.root[TOOLS].execute(request)).is_error
    assert kit.logged() == [(Todo("a", "pending"),)]


async def test_content_is_trimmed(kit) -> None:
    await kit.mount()
    await kit.write({"content": "  a ", "status": "pending"})
    assert kit.logged() == [(Todo("a", "pending"),)]


@pytest.mark.parametrize(
    ("todos", "shown"),
    [
        (({"content": " \n", "status": "pending"},), "todos[0].content is blank"),
        (({"content": " a ", "status": "pending"}, PENDING), "todos[1] repeats todos[0], 'a'"),
        ((ACTIVE, PENDING, ALSO_ACTIVE), "todos[0], todos[2] are all in_progress"),
    ],
)
async def test_a_list_that_makes_no_sense_is_refused_and_not_logged(kit, todos, shown) -> None:
    await kit.mount()
    outcome = await kit.write(*todos)
    assert outcome.error.code == "INVALID_TODOS"
    assert shown in outcome.error.message
    assert kit.logged() == []


async def test_several_active_items_are_fine_where_the_configuration_says_so(kit) -> None:
    await kit.mount(parallel=True)
    outcome = await kit.write(ACTIVE, ALSO_ACTIVE)
    assert outcome.value["counts"]["inProgress"] == 2


async def test_an_unknown_key_or_status_is_an_argument_error(kit) -> None:
    await kit.mount()
    for todo in ({**PENDING, "id": 1}, {"content": "a", "status": "done"}):
        assert (await kit.write(todo)).error.code == "INVALID_ARGS"
    assert (await kit.write(PENDING, merge=True)).error.code == "INVALID_ARGS"
    assert kit.logged() == []


async def test_a_call_without_an_agent_has_no_log_to_write_to(kit) -> None:
    await kit.mount()
    assert (await kit.write(PENDING, agent=False)).error.code == "NO_AGENT"


async def test_the_configuration_is_required() -> None:
    with pytest.raises(ConfigError):
        validate_config(TodoTool.Config, {}, where="tool-todo")
    config = validate_config(TodoTool.Config, {"allowParallelInProgress": True}, where="tool-todo")
    assert config == TodoConfig(allow_parallel_in_progress=True)


async def test_a_mount_without_configuration_fails_and_offers_nothing(kit) -> None:
    with pytest.raises(ConfigError):
        await kit.root.plugin(TodoTool)
    assert kit.root[TOOLS].schemas() == ()


async def test_the_tool_goes_with_its_plugin(kit) -> None:
    fiber = await kit.root.plugin(TodoTool, TodoConfig(allow_parallel_in_progress=True))
    assert kit.root[TOOLS].get("todo_write") is not None
    await fiber.dispose()
    assert kit.root[TOOLS].get("todo_write") is None


@pytest.mark.parametrize("parallel", [True, False])
async def test_what_the_model_reads_of_the_tool(kit, parallel) -> None:
    await kit.mount(parallel=parallel)
    (schema,) = kit.root[TOOLS].schemas()
    rule = (
        "Several items may be in_progress if you work on them at the same time."
        if parallel
        else "At most one item is in_progress at a time."
    )
    assert schema.description == (
        "Write the task list of this session. Each call replaces the whole list, so send every "
        "item, finished ones too. Use it for work of several steps, not for a single one. Set an "
        "item to completed as soon as it is done and checked, never while something of it fails or "
        f"is missing. {rule}"
    )
    assert thaw(schema.parameters) == {
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "description": "The complete list in order; empty clears it.",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {
                            "type": "string",
                            "description": "What is to be done, one short imperative line.",
                        },
                        "status": {
                            "type": "string",
                            "enum": ["completed", "in_progress", "pending"],
                        },
                    },
                    "required": ["content", "status"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["todos"],
        "additionalProperties": False,
    }


async def test_a_composition_of_rows_offers_the_tool_to_the_prompt(tmp_path) -> None:
    text = """
        - {id: todo, name: "dsh_tool_todo:TodoTool", config: {allowParallelInProgress: true}}
        - {id: tools, name: "dsh_tools:ToolRegistry"}
        - {id: prompt, name: "dsh_system_prompt:SystemPrompt", config: {persona: "P"}}
    """
    value = read_yaml(dedent(text), where="rows.yml")
    rows = parse_rows(value, where="rows.yml", base=str(tmp_path), origin="test")
    options = LoaderOptions(
        entry_points=EntryPoints({}), environment={}, home=str(tmp_path), cwd=str(tmp_path)
    )
    async with Context() as root:
        await root.plugin(Loader, options)
        await root[LOADER].apply(rows)
        assembly = await root[SYSTEM_PROMPT].assemble(AssembleContext())
        assert [tool.name for tool in assembly.tools] == ["todo_write"]
