"""The order in which a request lists its tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ._errors import SystemPromptError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dsh_llm import ToolSchema

UNLISTED_TOOLS: Final = "<unlisted-tools>"
"""Where a configured order puts every tool that it does not name."""


def check_tool_order(order: Sequence[str]) -> None:
    """Raises `SystemPromptError` `INVALID_TOOL_ORDER` unless the marker is there exactly once.

    An empty order has no marker, so it is invalid too: leave the key out for the default.
    """
    if order.count(UNLISTED_TOOLS) != 1:
        message = f"toolOrder must hold {UNLISTED_TOOLS!r} exactly once, got {list(order)!r}"
        raise SystemPromptError(message, code="INVALID_TOOL_ORDER")
    if twice := sorted({name for name in order if order.count(name) > 1}):
        message = f"toolOrder names {', '.join(map(repr, twice))} more than once"
        raise SystemPromptError(message, code="INVALID_TOOL_ORDER")


def order_tools(
    tools: Iterable[ToolSchema], order: Sequence[str] | None, known_names: Collection[str]
) -> tuple[ToolSchema, ...]:
    """`tools` by name, or as `order` says; a listed tool that is known but absent is left out.

    Raises `SystemPromptError`: `UNKNOWN_TOOL` for a listed name outside `known_names`,
    `RESERVED_TOOL_NAME` for a tool that is named like the marker.
    """
    by_name = sorted(tools, key=lambda tool: tool.name)
    if any(tool.name == UNLISTED_TOOLS for tool in by_name):
        message = f"a tool cannot be named {UNLISTED_TOOLS!r}: toolOrder uses it as a marker"
        raise SystemPromptError(message, code="RESERVED_TOOL_NAME")
    if order is None:
        return tuple(by_name)
    if unknown := [name for name in order if name != UNLISTED_TOOLS and name not in known_names]:
        known = ", ".join(sorted(known_names)) or "none"
        message = f"toolOrder names {', '.join(map(repr, unknown))}; known tools: {known}"
        raise SystemPromptError(message, code="UNKNOWN_TOOL")
    listed = set(order)
    out: list[ToolSchema] = []
    for name in order:
        if name == UNLISTED_TOOLS:
            out += (tool for tool in by_name if tool.name not in listed)
        else:
            out += (tool for tool in by_name if tool.name == name)
    return tuple(out)
