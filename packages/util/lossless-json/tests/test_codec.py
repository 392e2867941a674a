"""Typed values, open unions and their JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from dsh_lossless_json import (
    FrozenDict,
    FrozenJson,
    LosslessJsonError,
    Opaque,
    OpenUnion,
    convert,
    decoder,
    encode,
    freeze,
)
from hypothesis import given
from hypothesis import strategies as st


class Shape(OpenUnion, tag_field="type"):
    """A union that any package may extend."""


@Shape.variant
class Circle(msgspec.Struct, Shape, tag_field="type", tag="circle", frozen=True):
    radius: int


@Shape.variant
class Group(msgspec.Struct, Shape, tag_field="type", tag="group", frozen=True):
    members: tuple[Shape, ...]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    shapes: tuple[Shape, ...] = ()
    meta: FrozenJson = None
    labels: FrozenDict | None = None


_drawings = decoder(Drawing)

_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text('abé€ \n"\\'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcé", max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)
_circles = st.builds(lambda r: {"type": "circle", "radius": r}, st.integers(0, 1000))
_unknown = st.builds(
    lambda tag, rest: {"type": tag, **{f"x{key}": item for key, item in rest.items()}},
    st.sampled_from(["square", "text", "Circle"]),
    st.dictionaries(st.text("abc", max_size=3), _plain, max_size=3),
)
_shapes = st.recursive(
    _circles | _unknown,
    lambda inner: st.builds(
        lambda members: {"type": "group", "members": members}, st.lists(inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(_shapes, max_size=4), _plain, st.dictionaries(st.text("ab"), _plain, max_size=2))
def test_a_record_of_known_and_unknown_parts_is_written_back_byte_for_byte(
    shapes: list[Any], meta: Any, labels: dict[str, Any]
) -> None:
    document = {"shapes": shapes, "meta": meta, "labels": labels}
    line = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    record = _drawings.decode(line)
    assert encode(record) == line
    assert convert(document, Drawing) == record
    assert hash(record) == hash(_drawings.decode(line))


def test_an_unknown_variant_stays_a_member_of_its_union() -> None:
    [shape] = _drawings.decode(b'{"shapes":[{"type":"star","points":[5,{"x":null}]}]}').shapes
    assert isinstance(shape, Shape)
    assert isinstance(shape, Opaque)
    assert shape.tag == "star"
    assert shape.json == {"type": "star", "points": (5, {"x": None})}
    with pytest.raises(TypeError, match="frozen"):
        shape.tag = "other"


def test_a_variant_registered_later_is_decoded_by_decoders_made_before() -> None:
    class Late(OpenUnion, tag_field="kind"):
        pass

    many = decoder(tuple[Late, ...])
    line = b'[{"kind":"new","n":1}]'
    assert isinstance(many.decode(line)[0], Opaque)

    @Late.variant
    class New(msgspec.Struct, Late, tag_field="kind", tag="new", frozen=True):
        n: int

    assert many.decode(line) == (New(n=1),)


def test_an_object_without_its_tag_is_refused() -> None:
    for line in (
        b'{"shapes":[{"radius":1}]}',
        b'{"shapes":[{"type":1}]}',
        b'{"shapes":["circle"]}',
    ):
        with pytest.raises(msgspec.ValidationError, match=r"text 'type' - at `\$.shapes\[0\]`"):
            _drawings.decode(line)


def test_a_bad_field_of_a_variant_is_named_with_the_whole_path() -> None:
    line = b'{"shapes":[{"type":"group","members":[{"type":"circle","radius":"x"}]}]}'
    with pytest.raises(msgspec.ValidationError) as caught:
        _drawings.decode(line)
    message = str(caught.value)
    assert "'group'.members[0]" in message
    assert "'circle'.radius" in message
    assert message.endswith("at `$.shapes[0]`")


def test_free_data_that_does_not_survive_is_refused_on_decoding() -> None:
    for line in (b'{"meta":{"a":"\\u0000"}}', b'{"shapes":[{"type":"x","n":-0.0}]}'):
        with pytest.raises(LosslessJsonError):
            _drawings.decode(line)


def test_a_second_class_for_one_tag_is_refused() -> None:
    Shape.variant(Circle)  # the same class again is no conflict

    class Disc(msgspec.Struct, Shape, tag_field="type", tag="circle", frozen=True):
        pass

    with pytest.raises(TypeError, match="'circle' is Circle already"):
        Shape.variant(Disc)


def test_a_variant_must_belong_to_its_union() -> None:
    class Stranger(msgspec.Struct, tag_field="type", tag="stranger", frozen=True):
        pass

    class OtherField(msgspec.Struct, Shape, tag_field="kind", tag="other", frozen=True):
        pass

    class Numbered(msgspec.Struct, Shape, tag_field="type", tag=7, frozen=True):
        pass

    for wrong in (Stranger, OtherField, Numbered):
        with pytest.raises(TypeError, match=wrong.__name__):
            Shape.variant(wrong)


def test_encoding_refuses_what_no_reader_could_take() -> None:
    for value in ("half \ud83d", object(), {"k": object()}):
        with pytest.raises(LosslessJsonError):
            encode(value)


def test_frozen_values_encode_compactly_and_unescaped() -> None:
    assert encode(freeze({"é": [1, 2.5, None, True]})) == '{"é":[1,2.5,null,true]}'.encode()
