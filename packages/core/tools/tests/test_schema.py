from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from dsh_lossless_json import FrozenJson, thaw
from dsh_tools import ToolError, ToolExecution, ToolSchemaError, define_tool, tool
from msgspec import UNSET, Meta, UnsetType


async def nothing(args, execution) -> None: ...


def parameters(params: Any) -> Any:
    tool = define_tool(name="t", description="d", params=params, execute=nothing)
    return thaw(tool.schema.parameters)


def output(kind: Any) -> Any:
    return define_tool(
        name="t", description="d", params={"type": "object"}, execute=nothing, output=kind
    ).output


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Item(msgspec.Struct):
    """For programmers, not for the model."""

    text: Annotated[str, Meta(pattern="^a", max_length=5)]
    level: Level = Level.LOW


class Everything(msgspec.Struct, kw_only=True, rename="camel"):
    """Only the tool's own description reaches the model."""

    file_path: Annotated[str, Meta(min_length=1, description="Absolute or relative.")]
    mode: Literal["r", "w"] = "r"
    limit: Annotated[int, Meta(ge=1, le=2000, description="Lines.")] | None = None
    items: list[Annotated[Item, Meta(description="One of them.")]] = []
    span: tuple[int, int] | None = None
    extra: dict[str, float] | UnsetType = UNSET
    anything: FrozenJson = None


def test_a_struct_becomes_one_closed_schema_without_references_or_titles() -> None:
    assert parameters(Everything) == {
        "type": "object",
        "properties": {
            "filePath": {
                "description": "Absolute or relative.",
                "type": "string",
                "minLength": 1,
            },
            "mode": {"type": "string", "enum": ["r", "w"], "default": "r"},
            "limit": {"description": "Lines.", "type": "integer", "minimum": 1, "maximum": 2000},
            "items": {
                "type": "array",
                "items": {
                    "description": "One of them.",
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "pattern": "^a", "maxLength": 5},
                        "level": {"type": "string", "enum": ["high", "low"], "default": "low"},
                    },
                    "required": ["text"],
                    "additionalProperties": False,
                },
                "default": [],
            },
            "span": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 2,
                "maxItems": 2,
            },
            "extra": {"type": "object", "additionalProperties": {"type": "number"}},
            "anything": {},
        },
        "required": ["filePath"],
        "additionalProperties": False,
    }


def test_a_required_value_that_may_be_null_says_so() -> None:
    class Nullable(msgspec.Struct):
        x: int | None

    assert parameters(Nullable)["properties"]["x"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}]
    }


def test_a_dataclass_describes_parameters_too() -> None:
    @dataclass
    class Point:
        x: int
        y: int = 0

    assert parameters(Point)["required"] == ["x"]


class Chain(msgspec.Struct):
    next: Chain | None = None


class Mixed(msgspec.Struct):
    pair: tuple[int, str]


class Opaque:
    pass


class Holder(msgspec.Struct):
    value: Opaque


@pytest.mark.parametrize("kind", [Chain, Mixed, Holder, int, list[int]])
def test_a_type_that_tools_cannot_offer_is_refused(kind: Any) -> None:
    with pytest.raises(ToolSchemaError) as caught:
        parameters(kind)
    assert caught.value.code == "UNSUPPORTED_SCHEMA"


def test_all_violations_of_an_output_schema_are_named_in_order() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"]},
            "b": {"enum": []},
            "c": {"type": "string", "minimum": 1},
            "d": {"oneOf": [{"type": "string"}]},
            "e": {"type": "integer", "enum": ["x"]},
            "f": {"allOf": [{}]},
            "g": {"type": "string", "const": "x", "enum": ["y"]},
        },
        "required": ["z"],
    }
    with pytest.raises(ToolSchemaError) as caught:
        output(schema)
    assert [violation.split(" ")[0] for violation in caught.value.violations] == [
        *"abcdefg",
        "schema",
    ]


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    with pytest.raises(ToolSchemaError):
        output(schema)


def test_a_schema_used_twice_side_by_side_is_fine() -> None:
    shared = {"type": "integer"}
    schema = {"type": "object", "properties": {"a": shared, "b": shared}}
    assert output(schema).read({"a": 1, "b": 2}) == {"a": 1, "b": 2}


def test_references_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 60):
        one = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = {"type": "object", "properties": {"a": one, "b": one}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d59"}}, "$defs": defs}
    with pytest.raises(ToolSchemaError, match="too large"):
        parameters(schema)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ä", "a.b"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ToolError) as caught:
        define_tool(name=name, description="d", params={"type": "object"}, execute=nothing)
    assert caught.value.code == "INVALID_DEFINITION"


@pytest.mark.parametrize("timeout_ms", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_not_positive_is_refused(timeout_ms: float) -> None:
    with pytest.raises(ToolError) as caught:
        define_tool(
            name="t",
            description="d",
            params={"type": "object"},
            execute=nothing,
            timeout_ms=timeout_ms,
        )
    assert caught.value.code == "INVALID_DEFINITION"


def test_a_typed_function_is_a_whole_tool() -> None:
    @tool(concurrency_safe=True)
    async def repeat(
        text: Annotated[str, Meta(description="What to say.")],
        execution: ToolExecution,
        *,
        times: Annotated[int, Meta(ge=1)] = 2,
        tags: list[str] = ["x"],  # noqa: B006 - each call gets its own copy
    ) -> list[str]:
        """Say it again."""
        return [text] * times

    assert repeat.name == "repeat"
    assert repeat.description == "Say it again."
    assert repeat.is_concurrency_safe is True
    assert thaw(repeat.schema.parameters) == {
        "type": "object",
        "properties": {
            "text": {"description": "What to say.", "type": "string"},
            "times": {"type": "integer", "minimum": 1, "default": 2},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert repeat.output.schema == {"type": "array", "items": {"type": "string"}}


async def no_docstring(x: int) -> int:
    return x


async def no_annotation(x) -> int:
    """D."""
    return x


async def open_ended(*parts: str) -> int:
    """D."""
    return len(parts)


def synchronous(x: int) -> int:
    """D."""
    return x


async def unresolved(x: Nowhere) -> int:  # noqa: F821 - the point of the test
    """D."""
    return 0


@pytest.mark.parametrize(
    "function", [no_docstring, no_annotation, open_ended, synchronous, unresolved]
)
def test_a_function_that_cannot_be_a_tool_says_why(function: Any) -> None:
    with pytest.raises(ToolError) as caught:
        tool(function)
    assert caught.value.code == "INVALID_DEFINITION"
    assert function.__name__ in str(caught.value)


class Report(msgspec.Struct):
    when: datetime.date
    level: Level
    items: tuple[Item, ...] = ()


def test_an_output_is_frozen_json_that_builds_the_typed_value_again() -> None:
    reader = output(Report)
    report = Report(datetime.date(2024, 2, 29), Level.HIGH, (Item("abc"),))
    plain = reader.read(report)
    assert plain == {
        "when": "2024-02-29",
        "level": "high",
        "items": ({"text": "abc", "level": "low"},),
    }
    assert reader.build(plain) == report
