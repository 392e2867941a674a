"""The `todo_write` tool."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from dsh_cordis import Context, Disposer, Service
from dsh_tools import TOOLS, ToolDefinition, ToolError, define_tool
from msgspec import Meta

from ._records import TODO_WRITE, Todo, TodoCounts, TodoList, TodoWrite

if TYPE_CHECKING:
    from dsh_tools import ToolExecution

_DESCRIPTION: Final = (
    "Write the task list of this session. Each call replaces the whole list, so send every item, "
    "finished ones too. Use it for work of several steps, not for a single one. Set an item to "
    "completed as soon as it is done and checked, never while something of it fails or is missing. "
)
_ONE_ACTIVE: Final = "At most one item is in_progress at a time."
_MANY_ACTIVE: Final = "Several items may be in_progress if you work on them at the same time."


class TodoConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How strict the list is."""

    allow_parallel_in_progress: Annotated[
        bool, Meta(description="Whether several items may be in progress at once.")
    ]


class TodoTool(Service):
    """Offers `todo_write`, whose list lives in the calling agent's session log."""

    inject = (TOOLS,)
    Config = TodoConfig
    name = "dsh-tool-todo"

    def __init__(self, ctx: Context, config: TodoConfig) -> None:
        super().__init__(ctx, config)
        self._parallel = config.allow_parallel_in_progress

    def start(self) -> Disposer:
        """Register the tool."""
        return self.own[TOOLS].register(self.definition())

    def definition(self) -> ToolDefinition:
        """The tool under this configuration."""
        return define_tool(
            name="todo_write",
            description=_DESCRIPTION + (_MANY_ACTIVE if self._parallel else _ONE_ACTIVE),
            params=TodoWrite,
            execute=self._write,
            render=_counted,
        )

    async def _write(self, args: TodoWrite, execution: ToolExecution) -> TodoList:
        if execution.agent is None:
            raise ToolError(
                "todo_write needs an agent, whose session keeps the list", code="NO_AGENT"
            )
        todos = tuple(Todo(todo.content.strip(), todo.status) for todo in args.todos)
        self._check(todos)
        execution.agent.session.append(TODO_WRITE, TodoWrite(todos))
        by_status = Counter(todo.status for todo in todos)
        counts = TodoCounts(
            pending=by_status["pending"],
            in_progress=by_status["in_progress"],
            completed=by_status["completed"],
        )
        return TodoList(todos, counts)

    def _check(self, todos: tuple[Todo, ...]) -> None:
        seen: dict[str, int] = {}
        for index, todo in enumerate(todos):
            if not todo.content:
                raise _invalid(f"todos[{index}].content is blank; say what is to be done")
            if todo.content in seen:
                first = seen[todo.content]
                raise _invalid(
                    f"todos[{index}] repeats todos[{first}], {todo.content!r}; send it once"
                )
            seen[todo.content] = index
        active = [index for index, todo in enumerate(todos) if todo.status == "in_progress"]
        if len(active) > 1 and not self._parallel:
            places = ", ".join(f"todos[{index}]" for index in active)
            raise _invalid(f"{places} are all in_progress; keep one and set the others to pending")


def _invalid(message: str) -> ToolError:
    return ToolError(message, code="INVALID_TODOS")


def _counted(_args: TodoWrite, value: TodoList) -> str:
    if not value.todos:
        return "The list is empty."
    counts = value.counts
    return (
        f"List written: {counts.completed} completed, {counts.in_progress} in progress, "
        f"{counts.pending} pending."
    )
