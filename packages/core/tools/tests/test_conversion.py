from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from dsh_tools import ToolArgsError, define_tool
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta


class Todo(msgspec.Struct):
    content: Annotated[str, Meta(min_length=1)]
    status: Literal["pending", "completed"]


class Params(msgspec.Struct, kw_only=True):
    file_path: str
    limit: Annotated[int, Meta(ge=1, le=2000)] | None = None
    ratio: float = 1.0
    flag: bool = False
    todos: list[Todo] = []
    options: dict[str, int] = {}
    target: str | list[str] = ""


class ByName(msgspec.Struct, tag_field="by", tag="name"):
    name: str


class ById(msgspec.Struct, tag_field="by", tag="id"):
    id: int


class Lookup(msgspec.Struct):
    key: ByName | ById


async def nothing(args, execution) -> None: ...


def typed(params: Any) -> Any:
    return define_tool(name="t", description="d", params=params, execute=nothing).arguments


PARAMS = typed(Params)


def read(arguments: Any, reader: Any = PARAMS) -> Any:
    return reader.read(arguments)


def complaints(arguments: Any, reader: Any = PARAMS) -> tuple[str, ...]:
    with pytest.raises(ToolArgsError) as caught:
        reader.read(arguments)
    assert caught.value.code == "INVALID_ARGS"
    return caught.value.violations


def one_complaint(arguments: Any, reader: Any = PARAMS) -> str:
    (complaint,) = complaints(arguments, reader)
    return complaint


def test_a_numeric_string_becomes_the_number_that_the_schema_wants() -> None:
    assert read({"file_path": "a.txt", "limit": "20", "ratio": "2.5"}) == {
        "file_path": "a.txt",
        "limit": 20,
        "ratio": 2.5,
    }


def test_json_text_becomes_the_array_or_object_that_the_schema_wants() -> None:
    taken = read(
        {
            "file_path": "a.txt",
            "todos": '[{"content":"a","status":"pending"}]',
            "options": '{"a": "1"}',
        }
    )
    assert taken["todos"] == ({"content": "a", "status": "pending"},)
    assert taken["options"] == {"a": 1}


def test_arguments_that_are_json_in_json_are_unwrapped_once() -> None:
    assert read('{"file_path": "a.txt"}') == {"file_path": "a.txt"}


def test_a_boolean_is_not_a_number() -> None:
    complaint = one_complaint({"file_path": "a.txt", "limit": True})
    assert complaint == "limit: expected an integer, got a boolean (true)"


def test_a_string_is_not_a_boolean() -> None:
    complaint = one_complaint({"file_path": "a.txt", "flag": "true"})
    assert "flag: expected a boolean" in complaint
    assert complaint.endswith('got the string "true"')


def test_a_number_is_not_a_string() -> None:
    assert one_complaint({"file_path": 5}) == "file_path: expected a string, got the integer 5"


def test_null_is_not_absent_unless_the_type_takes_it() -> None:
    assert read({"file_path": "a.txt", "limit": None})["limit"] is None
    complaint = one_complaint({"file_path": "a.txt", "flag": None})
    assert complaint.startswith("flag: expected a boolean")


def test_an_unknown_key_is_refused_by_name() -> None:
    complaint = one_complaint({"file_path": "a.txt", "limits": 3})
    assert complaint.startswith("limits: unknown key 'limits', known keys: file_path, limit")


def test_an_unknown_key_of_a_nested_object_is_refused_with_its_path() -> None:
    todo = {"content": "a", "status": "pending", "x": 1}
    complaint = one_complaint({"file_path": "a.txt", "todos": [todo]})
    assert complaint.startswith("todos[0].x: unknown key 'x'")


def test_a_missing_key_says_what_was_expected() -> None:
    assert one_complaint({}) == "file_path: required but missing, expected a string"


def test_every_violation_is_reported_with_its_path() -> None:
    todo = {"content": "", "status": "done"}
    assert complaints({"file_path": "a.txt", "limit": 2001, "todos": [todo]}) == (
        "limit: expected at most 2000, got the integer 2001",
        "todos[0].content: expected at least 1 character, got 0",
        'todos[0].status: expected one of "completed", "pending", got the string "done"',
    )


def test_bounds_hold_for_converted_values_too() -> None:
    complaint = one_complaint({"file_path": "a.txt", "limit": "0"})
    assert complaint == "limit: expected at least 1, got the integer 0"


def test_an_integral_float_is_an_integer_and_another_is_not() -> None:
    taken = read({"file_path": "a.txt", "limit": 5.0})["limit"]
    assert taken == 5
    assert type(taken) is int
    complaint = one_complaint({"file_path": "a.txt", "limit": 5.5})
    assert complaint == "limit: expected an integer, got the number 5.5"


@pytest.mark.parametrize(
    "text",
    ["", "x", "1x", "0x10", "1_000", "١", "NaN", "Infinity", "1e999", "--1", "+1", "01", "."],
)
def test_text_that_is_no_json_number_is_refused(text: str) -> None:
    assert one_complaint({"file_path": "a.txt", "ratio": text}).startswith(
        "ratio: expected a number, got the string"
    )


@pytest.mark.parametrize("text", ["0.12345678901234567890123", "1e-999", "-0.0", "-0.0e5"])
def test_a_number_that_would_change_on_the_way_is_refused(text: str) -> None:
    assert "expected a number" in one_complaint({"file_path": "a.txt", "ratio": text})


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": NaN}', "[1]", "5", "{'a': 1}"])
def test_text_that_is_no_lossless_object_is_refused(text: str) -> None:
    assert one_complaint({"file_path": "a.txt", "options": text}).startswith(
        "options: expected an object, got the string"
    )


def test_what_fits_an_alternative_as_it_is_stays_as_it_is() -> None:
    assert read({"file_path": "a", "target": '["x"]'})["target"] == '["x"]'
    assert read({"file_path": "a", "target": ["x"]})["target"] == ("x",)


def test_the_tag_of_a_union_decides_whose_complaint_is_told() -> None:
    reader = typed(Lookup)
    assert one_complaint({"key": {"by": "id", "id": "x"}}, reader).startswith("key.id: expected an")
    wanted = 'key.by: expected "name" or "id", got the string "age"'
    assert one_complaint({"key": {"by": "age"}}, reader) == wanted
    assert read({"key": '{"by": "id", "id": "7"}'}, reader) == {"key": {"by": "id", "id": 7}}


def test_arguments_that_did_not_parse_show_their_start() -> None:
    complaint = one_complaint('{"file_path": "a.txt"')
    assert complaint.startswith("arguments are not valid JSON (Expecting")
    assert """they start with '{"file_path": "a.txt"'""" in complaint


def test_a_root_of_another_kind_is_named_arguments() -> None:
    assert one_complaint([1]) == "arguments: expected an object, got an array of 1"
    assert one_complaint("[1]") == "arguments: expected an object, got an array of 1"


def test_text_that_strict_json_refuses_is_refused_with_its_path() -> None:
    assert one_complaint({"file_path": "a\0b"}).startswith("arguments.file_path holds")
    assert one_complaint({"file_path": "a\ud800"}).startswith("arguments.file_path holds")


def test_the_callers_object_is_left_alone() -> None:
    arguments = {"file_path": "a.txt", "todos": '[{"content":"a","status":"pending"}]'}
    before = dict(arguments)
    taken = read(arguments)
    assert arguments == before
    with pytest.raises(TypeError):
        taken["file_path"] = "other"


def test_a_bridged_schema_follows_the_same_rule() -> None:
    reader = typed(
        {
            "type": "object",
            "properties": {
                "n": {"type": ["integer", "null"], "minimum": 1},
                "node": {"$ref": "#/$defs/node"},
                "mode": {"enum": ["a", "b"]},
            },
            "required": ["n"],
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {"next": {"$ref": "#/$defs/node"}, "tags": {"type": "array"}},
                }
            },
        }
    )
    taken = reader.read({"n": "3", "node": '{"next": {"tags": "[1]"}, "tags": "[]"}', "mode": "a"})
    # The reference that would never end is open below its first round.
    assert taken == {"n": 3, "node": {"next": {"tags": "[1]"}, "tags": ()}, "mode": "a"}
    assert one_complaint({"n": True}, reader).startswith("n: expected an integer")
    assert one_complaint({"n": 1, "x": 1}, reader).startswith("x: unknown key 'x'")
    assert "expected at least 1" in one_complaint({"n": "0"}, reader)


def test_a_bridged_schema_that_asks_for_more_keys_gets_them() -> None:
    reader = typed({"type": "object", "properties": {"a": {}}, "additionalProperties": True})
    assert reader.read({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert typed({"type": "object"}).read({"b": 2}) == {"b": 2}


def test_parts_of_one_bridged_object_share_its_keys() -> None:
    reader = typed(
        {
            "type": "object",
            "allOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"b": {"type": "integer"}}},
            ],
        }
    )
    assert reader.read({"a": "1", "b": "2"}) == {"a": 1, "b": 2}
    assert one_complaint({"b": 1}, reader).startswith("a: required but missing")


def test_one_of_needs_exactly_one_fit() -> None:
    reader = typed(
        {
            "type": "object",
            "properties": {"x": {"oneOf": [{"type": "number"}, {"type": "integer"}]}},
        }
    )
    assert one_complaint({"x": 1}, reader) == "x: fits 2 alternatives, must fit exactly one"
    assert reader.read({"x": 1.5}) == {"x": 1.5}


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_integer_survives_the_way_through_text(number: int) -> None:
    reader = typed({"type": "object", "properties": {"x": {"type": "integer"}}})
    assert reader.read({"x": str(number)}) == {"x": number}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_survives_the_way_through_text(number: float) -> None:
    reader = typed({"type": "object", "properties": {"x": {"type": "number"}}})
    if str(number) == "-0.0":
        assert complaints({"x": repr(number)}, reader)
    else:
        assert reader.read({"x": repr(number)}) == {"x": number}


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: str(x) != "-0.0")
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


def thawed(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


@given(st.dictionaries(st.text("abc", min_size=1), ANY_JSON))
def test_open_parts_come_through_as_they_are(value: dict[str, Any]) -> None:
    assert thawed(typed({"type": "object"}).read(value)) == json.loads(json.dumps(value))


@given(ANY_JSON)
def test_any_data_is_converted_or_refused_and_never_breaks_the_reader(value: Any) -> None:
    arguments = {"file_path": "a", "limit": value, "todos": value, "options": value, "flag": value}
    try:
        taken = read(arguments)
    except ToolArgsError as error:
        assert all(one and ":" in one for one in error.violations)
    else:
        assert type(taken["flag"]) is bool
        raise AssertionError("a boolean cannot fit the other parameters too")


@given(st.dictionaries(st.text("ab", max_size=2), st.integers(0, 9)))
def test_reading_what_was_read_changes_nothing(options: dict[str, int]) -> None:
    wrapped = {key: str(value) for key, value in options.items()}
    once = read({"file_path": "a", "options": json.dumps(wrapped)})
    assert read(once) == once
    assert once["options"] == options


def test_data_deeper_than_the_log_takes_is_refused_and_not_a_crash() -> None:
    deep: Any = 0
    for _ in range(5000):
        deep = [deep]
    reader = typed({"type": "object", "properties": {"x": {}}})
    assert "nested deeper than 128" in one_complaint({"x": deep}, reader)
    text = "[" * 100_000
    lists = typed({"type": "object", "properties": {"x": {"type": "array"}}})
    assert "expected an array" in one_complaint({"x": text}, lists)
