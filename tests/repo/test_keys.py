"""Services and events are reached through their one key."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any

_EVENT_KEYS = {"Emit", "Parallel", "Serial", "Bail", "Waterfall", "SyncWaterfall"}
_FAMILIES = {
    "ServiceKey": "service",
    **dict.fromkeys(_EVENT_KEYS, "event"),
    "LogEvent": "log event",
    "SurfaceEvent": "log event",
}
_DISPATCH = {"on", "once", "emit", "parallel", "serial", "bail", "waterfall", "waterfall_sync"}


def made_key(node: ast.AST) -> tuple[str, str] | None:
    """Family and name of the key that a call makes."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    maker = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    name = node.args[0]
    if not isinstance(maker, ast.Name) or maker.id not in _FAMILIES:
        return None
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    return _FAMILIES[maker.id], name.value


def test_no_name_has_two_keys(members: list[Any]) -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for member in members:
        for module in member.modules:
            for node in module.nodes:
                if key := made_key(node):
                    places[key].append(module.at(node))
    assert places, "keys are found"
    assert {key: where for key, where in places.items() if len(where) > 1} == {}


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


def declared(body: list[ast.stmt], name: str) -> set[str] | None:
    """The names in the tuple that a class or module assigns to `name`; None if it assigns none."""
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value: ast.expr | None = getattr(node, "value", None)
            return {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} if value else set()
    return None


def strict_reads(scope: ast.AST) -> set[str]:
    """The keys that a scope reads as `ctx[KEY]` or `self.own[KEY]`."""
    return {
        node.slice.id
        for node in ast.walk(scope)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and is_context(node.value)
        and isinstance(node.slice, ast.Name)
    }


def injected(scope: ast.AST) -> set[str]:
    """The keys that a scope waits for with `ctx.inject((KEY,), …)`."""
    return {
        name.id
        for node in ast.walk(scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "inject" and node.args
        for name in ast.walk(node.args[0])
        if isinstance(name, ast.Name)
    }


def test_a_service_injects_what_it_reads(member: Any) -> None:
    offenders = {}
    for module in member.modules:
        for node in module.tree.body:
            if not isinstance(node, ast.ClassDef):
                continue
            if "Service" not in {ast.unparse(base) for base in node.bases}:
                continue
            known = declared(node.body, "inject") or set()
            known |= declared(node.body, "provides") or set()
            if missing := strict_reads(node) - known - injected(node):
                offenders[f"{module.at(node)} {node.name}"] = missing
    assert offenders == {}


def test_a_plugin_module_injects_what_it_reads(member: Any) -> None:
    offenders = {}
    for module in member.modules:
        inject = declared(module.tree.body, "inject")
        if inject is None:
            continue
        functions = [n for n in module.tree.body if not isinstance(n, ast.ClassDef)]
        read = set().union(*(strict_reads(function) for function in functions))
        if missing := read - inject - injected(module.tree):
            offenders[str(module.path)] = missing
    assert offenders == {}
