"""The `todo_write` tool and its log event."""

from __future__ import annotations

from ._records import TODO_WRITE, Todo, TodoCounts, TodoList, TodoWrite
from ._tool import TodoConfig, TodoTool

__all__ = (
    "TODO_WRITE",
    "Todo",
    "TodoConfig",
    "TodoCounts",
    "TodoList",
    "TodoTool",
    "TodoWrite",
)
