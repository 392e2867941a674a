from __future__ import annotations

import datetime
import enum
import subprocess
import sys

import pydantic
import pytest
from dsh_lossless_json import thaw
from dsh_tools import tool

pytestmark = pytest.mark.anyio


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Inner(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)


class Params(pydantic.BaseModel):
    """Not for the model."""

    path: str = pydantic.Field(description="Where.")
    limit: int | None = pydantic.Field(None, ge=1, le=10)
    inner: Inner | None = None
    when: datetime.date | None = None
    level: Level = Level.LOW
    amount: float | int = 1

    @pydantic.field_validator("path")
    @classmethod
    def relative(cls, path: str) -> str:
        if path.startswith("/"):
            raise ValueError("must be relative")
        return path


class Value(pydantic.BaseModel):
    path: str
    limit: int | None
    level: Level
    when: datetime.date | None


async def body(args: Params, execution) -> Value:
    assert type(args) is Params
    return Value(path=args.path, limit=args.limit, level=args.level, when=args.when)


async def test_a_model_becomes_the_same_kind_of_schema_as_a_struct(kit) -> None:
    definition = kit.add(body, params=Params)
    assert thaw(definition.schema.parameters) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 10},
            "inner": {
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 1}},
                "required": ["name"],
                "additionalProperties": False,
            },
            "when": {"type": "string", "format": "date"},
            "level": {"type": "string", "enum": ["low", "high"], "default": "low"},
            "amount": {"anyOf": [{"type": "number"}, {"type": "integer"}], "default": 1},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


async def test_a_model_gets_converted_arguments_and_gives_json(kit) -> None:
    kit.add(body, params=Params)
    outcome = await kit.call(
        {
            "path": "a",
            "limit": "3",
            "inner": '{"name": "x"}',
            "when": "2024-02-29",
            "level": "high",
        }
    )
    assert outcome.value == {"path": "a", "limit": 3, "level": "high", "when": "2024-02-29"}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"path": "a", "limit": True}, "limit: expected an integer, got a boolean (true)"),
        ({"path": "a", "limit": 11}, "limit: expected at most 10"),
        ({"path": "a", "inner": {"name": ""}}, "inner.name: expected at least 1 character"),
        ({"path": "a", "nope": 1}, "nope: unknown key"),
        ({"path": "/a"}, "path: Value error, must be relative"),
        ({"path": "a", "when": "soon"}, "when: "),
    ],
)
async def test_a_models_own_rules_are_argument_errors(kit, text, arguments, shown) -> None:
    kit.add(body, params=Params)
    outcome = await kit.call(arguments)
    assert outcome.error.code == "INVALID_ARGS"
    assert shown in text(outcome)


async def test_a_function_may_take_and_give_models(kit) -> None:
    @tool
    async def greet(inner: Inner, times: int = 1) -> Inner:
        """Greet."""
        return Inner(name=inner.name * times)

    kit.tools.register(greet)
    outcome = await kit.call({"inner": {"name": "a"}, "times": "2"}, name="greet")
    assert outcome.value == {"name": "aa"}


def test_the_package_itself_never_imports_pydantic() -> None:
    code = "import dsh_tools, sys; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
