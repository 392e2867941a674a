"""How modules are cut and what they may reach."""

from __future__ import annotations

import ast
import importlib
from typing import Any

_LONGEST_MODULE = 600
_LONGEST_BODY = 60
_FEW_NAMES = 12
_TASK_MAKERS = {"create_task", "ensure_future"}
_PUBLIC_MODULES = {"testing", "invariant"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def exported(module: Any) -> list[str]:
    """The names in a module's `__all__`; none if it has none."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            assert isinstance(node.value, ast.Tuple), "__all__ is a tuple"
            return [ast.literal_eval(item) for item in node.value.elts]
    return []


def init_of(member: Any) -> Any:
    return next(m for m in member.modules if m.path == member.source / "__init__.py")


def test_all_names_exactly_what_the_package_offers(member: Any) -> None:
    init = init_of(member)
    names = exported(init)
    assert len(names) == len(set(names))
    package = importlib.import_module(member.package)
    assert [name for name in names if not hasattr(package, name)] == []
    taken = {
        alias.asname or alias.name
        for node in init.nodes
        if isinstance(node, ast.ImportFrom)
        and (node.level == 1 or (node.module or "").startswith(f"{member.package}."))
        for alias in node.names
    }
    defined = {
        node.name
        for node in init.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert {name for name in taken | defined if not name.startswith("_")} == set(names)


def test_a_long_list_of_names_has_its_reason(member: Any) -> None:
    init = init_of(member)
    names = exported(init)
    if len(names) > _FEW_NAMES:
        above = init.text.partition("\n__all__")[0].splitlines()
        assert [line for line in above if line.startswith("# ")], f"{len(names)} names, why?"


def test_an_init_only_gathers(member: Any) -> None:
    # A plugin module's own names (apply, inject, Config, name) are what the loader looks for.
    for module in member.modules:
        if module.path.name != "__init__.py":
            continue
        kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.If)
        others = [node for node in module.tree.body[1:] if not isinstance(node, kinds)]
        assert [module.at(node) for node in others] == []


def test_modules_say_what_they_are_for_and_stay_short(member: Any) -> None:
    for module in member.modules:
        assert ast.get_docstring(module.tree), module.path
        assert len(module.lines) <= _LONGEST_MODULE, f"{module.path}: {len(module.lines)} lines"


def body_length(function: Function) -> int:
    body = function.body
    has_docstring = ast.get_docstring(function) is not None
    if has_docstring and len(body) == 1:
        return 0
    return (function.end_lineno or 0) - body[1 if has_docstring else 0].lineno + 1


def says_why_long(module: Any, function: Function) -> bool:
    line = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)]) - 2
    while line >= 0 and (text := module.lines[line].strip()).startswith("#"):
        if text.startswith("# Long: "):
            return True
        line -= 1
    return False


def test_functions_are_short_or_say_why_they_are_long(member: Any) -> None:
    long = [
        f"{module.at(node)} {node.name}: {body_length(node)} lines"
        for module in member.modules
        for node in module.nodes
        if isinstance(node, Function)
        and body_length(node) > _LONGEST_BODY
        and not says_why_long(module, node)
    ]
    assert long == []


def test_only_the_kernel_starts_tasks(member: Any) -> None:
    if member.name == "dsh-cordis":
        return
    calls = [
        module.at(node)
        for module in member.modules
        for node in module.nodes
        if (isinstance(node, ast.Attribute) and node.attr in _TASK_MAKERS)
        or (isinstance(node, ast.ImportFrom) and _TASK_MAKERS & {a.name for a in node.names})
    ]
    assert calls == []


def reaches_inside(module: str | None, names: list[str], own: str) -> bool:
    """Whether an import takes what another package keeps to itself."""
    parts = (module or "").split(".")
    if not parts[0].startswith("dsh_") or parts[0] == own:
        return False
    return parts[1:] not in ([], *([name] for name in _PUBLIC_MODULES)) or any(
        name.startswith("_") for name in names
    )


def test_packages_are_imported_from_their_root(member: Any) -> None:
    offenders = []
    for module in [*member.modules, *member.tests]:
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                inside = reaches_inside(node.module, [a.name for a in node.names], member.package)
            elif isinstance(node, ast.Import):
                inside = any(reaches_inside(a.name, [], member.package) for a in node.names)
            else:
                continue
            if inside:
                offenders.append(f"{module.at(node)}: {ast.unparse(node)}")
    assert offenders == []


def test_nothing_is_kept_in_module_state(member: Any) -> None:
    offenders = [
        module.at(node)
        for module in member.modules
        for node in module.nodes
        if isinstance(node, ast.Global)
    ]
    assert offenders == []
