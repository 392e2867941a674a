"""What holds for every event and service of the product: one payload, frozen, explained, scoped."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import re
import types
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from dsh_cordis import Bail, Emit, EventKey, Key, Parallel, Serial, SyncWaterfall, Waterfall
from dsh_scope import scope_target
from dsh_session import LogEvent, SessionEventType, SurfaceEvent

MODES = (Emit, Parallel, Serial, Bail, Waterfall, SyncWaterfall)
MAKERS = {maker.__name__ for maker in (*MODES, LogEvent, SurfaceEvent)} | {"ServiceKey"}
WITH_RESULT = {maker.__name__ for maker in (Serial, Bail, Waterfall, SyncWaterfall)}
KERNEL = "dsh_cordis"
"""Packages of the kernel, whose own events may have several arguments or none."""

OF_AN_AGENT = (
    *("agent/created", "agent/disposed", "agent/error", "agent/pre-step", "agent/request"),
    *("agent/request-error", "agent/session-start", "agent/status", "agent/turn-stopping"),
    *("agent/inbox/claimed", "agent/inbox/discarded", "agent/inbox/inserted"),
    *("tools/execute", "tools/post-execute", "tools/pre-execute", "tools/result"),
)
ADDRESSED = ("SESSION_CREATED", "SESSION_DISPOSED", "SESSION_EVENT", "SESSION_FLUSH")
"""Their scope is where the session was entered; no payload tells it, so each dispatch does."""


@dataclass(frozen=True)
class Made:
    """A key where it is assigned."""

    module: Any
    member: Any
    variable: str
    maker: str
    types: tuple[ast.expr, ...]
    where: str
    meaning: str
    value: Any
    """The key itself."""
    value_module: str

    @property
    def is_event(self) -> bool:
        return isinstance(self.value, EventKey)

    @property
    def is_product(self) -> bool:
        return not self.module.package.startswith(KERNEL)

    @property
    def payloads(self) -> tuple[ast.expr, ...]:
        return self.types[1:] if self.maker in WITH_RESULT else self.types


def made_in(member: Any, module: Any) -> Iterable[Made]:
    body = module.tree.body
    for node, below in zip(body, [*body[1:], None], strict=True):
        value = getattr(node, "value", None)
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(value, ast.Call):
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        annotation = getattr(node, "annotation", None)
        typed = [one for one in (value.func, annotation) if isinstance(one, ast.Subscript)]
        subscript = typed[0] if typed else None
        maker = value.func.value if isinstance(value.func, ast.Subscript) else value.func
        if not isinstance(maker, ast.Name) or maker.id not in MAKERS:
            continue
        inner = subscript.slice if subscript else ast.Tuple([])
        kinds = tuple(inner.elts) if isinstance(inner, ast.Tuple) else (inner,)
        text = below.value if isinstance(below, ast.Expr) else None
        parts = module.path.relative_to(member.source.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        yield Made(
            *(module, member, target.id, maker.id, kinds, module.at(node)),
            text.value if isinstance(text, ast.Constant) else "",
            getattr(importlib.import_module(name), target.id),
            name,
        )


@pytest.fixture(scope="module")
def made(members: list[Any]) -> list[Made]:
    found = [
        one
        for member in members
        for module in member.modules
        if not module.path.name.startswith("__main__")
        for one in made_in(member, module)
    ]
    assert len({one.value.name for one in found}) > 60, "keys are found"
    return found


def family(made: Made) -> str:
    if made.maker == "ServiceKey":
        return "service"
    return "event" if made.is_event else "log event"


def test_no_name_has_two_keys(made: list[Made]) -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in made:
        places[family(one), one.value.name].append(one.where)
    assert {key: where for key, where in places.items() if len(where) > 1} == {}


def test_no_example_takes_a_name_of_the_product(made: list[Made], root: Path) -> None:
    taken = {(family(one), one.value.name) for one in made}
    shown = re.compile(r"\b(\w+)(?:\[[^\n]*\])?\(\s*\"([\w/-]+)\"")
    found = [
        (kind, name)
        for path in sorted((root / "examples").rglob("*.py"))
        for maker, name in shown.findall(path.read_text("utf-8"))
        if maker in MAKERS
        for kind in [{"ServiceKey": "service", "LogEvent": "log event"}.get(maker, "event")]
    ]
    assert ("service", "notes") in found
    assert taken.isdisjoint(found)


def test_every_key_is_a_constant_of_its_name(made: list[Made]) -> None:
    kinds = (Key, SessionEventType)
    assert [one.where for one in made if not isinstance(one.value, kinds)] == []
    assert [one.where for one in made if not one.variable.isupper()] == []


def test_session_events_are_entry_points_and_entry_points_session_events(
    made: list[Made], members: list[Any]
) -> None:
    declared = {
        (member.name, name): value
        for member in members
        for name, value in member.project.get("entry-points", {})
        .get("dsh.session_events", {})
        .items()
    }
    keys = {(one.member.name, one.value.name): one for one in made if family(one) == "log event"}
    assert declared.keys() == keys.keys()
    for place, value in declared.items():
        module, _, attribute = value.partition(":")
        assert getattr(importlib.import_module(module), attribute) is keys[place].value


def test_every_event_is_explained_below_its_key(made: list[Made]) -> None:
    silent = [one.where for one in made if one.is_event and not one.meaning.strip()]
    assert silent == []


def test_a_product_event_carries_exactly_one_payload(made: list[Made]) -> None:
    others = [
        one.where for one in made if one.is_event and one.is_product and len(one.payloads) != 1
    ]
    assert others == []


def evaluated(made: Made, kind: ast.expr) -> Any:
    """The type that a key's argument names, also one that is imported for checkers alone."""
    namespace = dict(vars(importlib.import_module(made.value_module)))
    for node in ast.walk(made.module.tree):
        if isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            module = importlib.import_module(source, made.value_module.rpartition(".")[0])
            namespace |= {n.asname or n.name: getattr(module, n.name) for n in node.names}
    expression = kind.value if isinstance(kind, ast.Constant) else kind
    if isinstance(expression, str):
        return eval(expression, namespace)
    return eval(compile(ast.Expression(expression), "key", "eval"), namespace)


def is_frozen(kind: Any) -> bool:
    """A frozen record or a value; otherwise a class whose methods say what may change."""
    if isinstance(kind, types.UnionType):
        return all(map(is_frozen, get_args(kind)))
    if issubclass(kind, msgspec.Struct):
        return bool(kind.__struct_config__.frozen)
    if dataclasses.is_dataclass(kind):
        return kind.__dataclass_params__.frozen
    if issubclass(kind, (str, int, float, bytes, tuple, frozenset, enum.Enum)):
        return True
    methods = [name for name, value in vars(kind).items() if callable(value) and name[0] != "_"]
    return bool(methods)


def test_payloads_and_logged_data_are_frozen(made: list[Made]) -> None:
    thawed = [
        one.where
        for one in made
        if one.is_event and one.is_product
        if not all(is_frozen(evaluated(one, kind)) for kind in one.payloads)
    ]
    logged = [one.where for one in made if family(one) == "log event"]
    thawed += [
        one.where for one in made if family(one) == "log event" and not is_frozen(one.value.payload)
    ]
    assert logged
    assert thawed == []


class Mutable(msgspec.Struct):
    count: int


class Frozen(msgspec.Struct, frozen=True):
    count: int


def test_a_record_that_can_be_changed_is_found() -> None:
    assert is_frozen(Frozen)
    assert not is_frozen(Mutable)
    assert not is_frozen(Frozen | Mutable)


class Subject:
    """As much of a payload as says whose it is."""

    def __init__(self, subject: object) -> None:
        self.agent = subject
        self.execution = types.SimpleNamespace(agent=subject)
        self.context = types.SimpleNamespace(scope=subject)


def by_name(made: list[Made]) -> Mapping[str, EventKey[Any]]:
    return {one.value.name: one.value for one in made if one.is_event}


@pytest.mark.parametrize("name", [*OF_AN_AGENT, "system-prompt/assemble"])
def test_an_event_about_somebody_is_told_in_that_scope(made: list[Made], name: str) -> None:
    scoped = by_name(made)[name].scoped
    subject = object()
    assert scoped is not None
    assert scoped(Subject(subject)) is scope_target(subject)


def test_every_payload_with_an_agent_has_a_scope(made: list[Made]) -> None:
    open_events = []
    for one in made:
        if not one.is_event or not one.is_product:
            continue
        (payload,) = (evaluated(one, kind) for kind in one.payloads)
        fields = getattr(payload, "__annotations__", {})
        if "agent" in fields and one.value.scoped is None:
            open_events.append(one.where)
    assert open_events == []


def test_every_dispatch_about_a_session_is_addressed(members: list[Any]) -> None:
    found, open_calls = set(), []
    for member in members:
        for module in member.modules:
            for node in module.nodes:
                if not isinstance(node, ast.Call) or not node.args:
                    continue
                key = getattr(node.args[0], "id", "")
                listens = getattr(node.func, "attr", "") in ("on", "once")
                if key in ADDRESSED and not listens:
                    found.add(key)
                    if "target" not in {keyword.arg for keyword in node.keywords}:
                        open_calls.append(module.at(node))
    assert open_calls == []
    assert found == set(ADDRESSED)


def test_a_service_key_names_the_class_that_it_gives(made: list[Made]) -> None:
    """So that `ctx[KEY]` has a type."""
    untyped = [one.where for one in made if family(one) == "service" and len(one.types) != 1]
    assert untyped == []
    for one in made:
        if family(one) == "service":
            assert isinstance(evaluated(one, one.types[0]), type), one.where
