"""Services and events are reached through their one key."""

from __future__ import annotations

import ast
from typing import Any

_DISPATCH = {"on", "once", "emit", "parallel", "serial", "bail", "waterfall", "waterfall_sync"}


def is_context(node: ast.expr) -> bool:
    """Whether an expression reads like a context: `ctx`, `self.ctx`, `self.own`, `root`."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.lstrip("_") in {"ctx", "own", "root"} or name.endswith("_ctx")


def is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def names_by_text(node: ast.AST) -> bool:
    """Whether a node names an event or a service by a string."""
    if isinstance(node, ast.Subscript):
        return is_context(node.value) and is_text(node.slice)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    if node.func.attr in _DISPATCH | {"get", "provide"}:
        return is_context(node.func.value) and is_text(node.args[0])
    return False


def test_no_event_or_service_is_named_by_a_string(member: Any) -> None:
    offenders = [
        f"{module.at(node)}: {ast.unparse(node)}"
        for module in [*member.modules, *member.tests]
        for node in module.nodes
        if names_by_text(node)
    ]
    assert offenders == []
