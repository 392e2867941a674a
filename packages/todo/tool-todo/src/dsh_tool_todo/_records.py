"""The list as the model writes it and the log keeps it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from dsh_session import LogEvent
from msgspec import Meta


class Todo(msgspec.Struct, frozen=True):
    """One item."""

    content: Annotated[str, Meta(description="What is to be done, one short imperative line.")]
    status: Literal["pending", "in_progress", "completed"]


class TodoWrite(msgspec.Struct, frozen=True):
    """The whole list, in place of the one before."""

    todos: Annotated[
        tuple[Todo, ...], Meta(description="The complete list in order; empty clears it.")
    ]


class TodoCounts(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Items by status."""

    pending: int
    in_progress: int
    completed: int


class TodoList(msgspec.Struct, frozen=True):
    """What `todo_write` returns."""

    todos: tuple[Todo, ...]
    counts: TodoCounts


TODO_WRITE = LogEvent("todo/write", TodoWrite)
