"""What `freeze` accepts, refuses and makes."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import pytest
from dsh_lossless_json import (
    MAX_DEPTH,
    FrozenDict,
    LosslessJsonError,
    freeze,
    repaired,
    thaw,
    unsafe_text,
)
from hypothesis import given
from hypothesis import strategies as st

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda x: x != 0.0 or math.copysign(1.0, x) > 0
    )
    | _text
)
json_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int, leaf: object = 1) -> object:
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@given(json_values)
def test_thaw_undoes_freeze(value: object) -> None:
    assert repr(thaw(freeze(value))) == repr(value)


@given(json_values)
def test_a_frozen_value_reads_back_from_the_standard_json(value: object) -> None:
    frozen = freeze(value)
    assert freeze(json.loads(json.dumps(frozen))) == frozen


@given(json_values)
def test_freezing_twice_changes_nothing(value: object) -> None:
    frozen = freeze(value)
    assert repr(freeze(frozen)) == repr(frozen)
    assert hash(freeze(value)) == hash(frozen)


@given(json_values)
def test_copies_and_pickles_of_a_frozen_value_are_equal(value: object) -> None:
    frozen = freeze(value)
    assert copy.deepcopy(frozen) == frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen


def test_a_frozen_value_does_not_follow_its_source() -> None:
    source: dict[str, Any] = {"a": [1, {"b": 2}]}
    frozen = freeze(source)
    source["a"][1]["b"] = 3
    source["a"].append(4)
    assert frozen == {"a": (1, {"b": 2})}


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.update(a=2),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.clear(),
        lambda d: d.setdefault("z", 1),
        lambda d: d.__ior__({"a": 2}),
    ],
)
def test_a_frozen_object_refuses_every_change(change: Any) -> None:
    frozen = freeze({"a": 1})
    with pytest.raises(TypeError, match="frozen"):
        change(frozen)
    assert frozen == {"a": 1}


def test_initialising_a_frozen_object_again_changes_nothing() -> None:
    frozen = freeze({"a": 1})
    frozen.__init__({"a": 2})
    assert frozen == {"a": 1}


def test_a_merge_of_a_frozen_object_is_a_new_plain_dict() -> None:
    frozen = freeze({"a": 1})
    merged = frozen | {"b": 2}
    merged["a"] = 5
    assert (type(merged), frozen) == (dict, {"a": 1})


def test_building_a_frozen_object_freezes_its_content() -> None:
    frozen = FrozenDict({"a": [1]})
    assert frozen == {"a": (1,)}
    with pytest.raises(LosslessJsonError):
        FrozenDict({"a": {1, 2}})


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -0.0,
        2**64,
        -(2**63) - 1,
        {1, 2},
        b"bytes",
        object(),
        {1: "number as a key"},
        "a\x00b",
        "half \ud83d",
        {"key\x00": 1},
        type("Sub", (dict,), {})(a=1),
        type("Text", (str,), {})("a"),
    ],
)
def test_what_does_not_survive_json_is_refused(value: object) -> None:
    with pytest.raises(LosslessJsonError) as caught:
        freeze([value])
    assert caught.value.code == "NOT_LOSSLESS_JSON"


def test_a_refusal_names_the_subject_and_the_path() -> None:
    with pytest.raises(LosslessJsonError, match=r"^meta\.files\[1\]\.size is nan"):
        freeze({"files": [{}, {"size": float("nan")}]}, what="meta")


def test_a_cycle_is_refused_with_a_short_message() -> None:
    loop: list[object] = []
    loop.append({"a rather long name of a key": loop})
    with pytest.raises(LosslessJsonError, match="nested deeper") as caught:
        freeze(loop)
    assert len(str(caught.value)) < 300


def test_the_depth_bound_is_exact() -> None:
    freeze(nested(MAX_DEPTH))
    with pytest.raises(LosslessJsonError, match="nested deeper"):
        freeze(nested(MAX_DEPTH + 1))


def test_frozen_parts_do_not_get_past_the_depth_bound() -> None:
    half = freeze(nested(MAX_DEPTH // 2))
    freeze(nested(MAX_DEPTH // 2, half))
    with pytest.raises(LosslessJsonError, match="nested deeper"):
        freeze(nested(MAX_DEPTH // 2 + 1, half))


@pytest.mark.parametrize(
    ("text", "bad"),
    [("", None), ("plain \u20ac \U0001f600", None), ("a\x00\ud800", "\x00"), ("x\udfff", "\udfff")],
)
def test_unsafe_text_finds_the_first_offender(text: str, bad: str | None) -> None:
    assert unsafe_text(text) == bad


def test_repair_replaces_what_strict_json_refuses_and_leaves_the_rest() -> None:
    assert repaired("a\0b\ud800c \U0001f600") == "a\ufffdb\ufffdc \U0001f600"
    assert repaired({"k\0": ["\udfff", ("ü", 1, None)]}) == {"k\ufffd": ["\ufffd", ["ü", 1, None]]}


def test_repaired_text_without_fault_is_the_same_object() -> None:
    text = "plain, " + "größer"
    assert repaired(text) is text


def test_repair_leaves_data_that_contains_itself_to_who_refuses_it() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(LosslessJsonError):
        freeze(repaired(loop))
