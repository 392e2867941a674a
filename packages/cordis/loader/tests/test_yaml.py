from __future__ import annotations

import math

import pytest
from dsh_cordis_loader import Expr, LoaderError, read_yaml


def read(text: str | bytes) -> object:
    return read_yaml(text, where="file.yml")


def refusal(text: str | bytes) -> str:
    with pytest.raises(LoaderError) as caught:
        read(text)
    assert caught.value.code == "INVALID_YAML"
    return str(caught.value)


@pytest.mark.parametrize("word", ["off", "no", "yes", "on", "y", "N", "Off"])
def test_words_that_older_yaml_reads_as_booleans_stay_text(word: str):
    assert read(f"a: {word}") == {"a": word}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("+7", 7),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", -math.inf),
        ("~", None),
        ("", None),
        ("TRUE", True),
        ("False", False),
        ("2020-01-01", "2020-01-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        ("0xZZ", "0xZZ"),
        ("0b1", "0b1"),
        ("٣", "٣"),
        ('"5"', "5"),
        ("'true'", "true"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object):
    result = read(f"a: {text}")
    assert result == {"a": value}
    assert type(result["a"]) is type(value)  # pyright: ignore[reportIndexIssue]


def test_not_a_number_is_read():
    assert math.isnan(read("a: .nan")["a"])  # pyright: ignore[reportIndexIssue, reportArgumentType]


def test_a_merge_key_is_a_plain_key():
    assert read("<<: {a: 1}\nb: 2\n") == {"<<": {"a": 1}, "b": 2}


def test_an_expression_is_kept_as_its_text():
    assert read("a: !expr platform == 'win32'  # why") == {"a": Expr("platform == 'win32'")}


def test_an_alias_repeats_its_value():
    assert read("a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}


def test_an_empty_document_is_none():
    assert read("") is None
    assert read("# only a comment\n") is None


def test_a_byte_order_mark_is_no_content():
    assert read(b"\xef\xbb\xbfa: 1\n") == {"a": 1}
    assert read("\ufeffa: 1\n") == {"a": 1}


BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30)
)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", "file.yml:3:1", "duplicate key 'a'"),
        ("1: x\n", "file.yml:1:1", "must be text"),
        ("a: &x [*x]\n", "file.yml:1:4", "contain itself"),
        (BOMB, "file.yml:4:5", "aliases stand for more than 100,000 values"),
        ("a: !!python/object:os.system x\n", "file.yml:1:4", "only tag is !expr"),
        ("a: !js 1\n", "file.yml:1:4", "only tag is !expr"),
        ("a: !!timestamp 2020-01-01\n", "file.yml:1:4", "only tag is !expr"),
        ("a: !expr ''\n", "file.yml:1:4", "needs an expression"),
        ("a: !expr [1]\n", "file.yml:1:4", "takes one text"),
        ("a: !!int x\n", "file.yml:1:4", "is no !!int"),
        ("a: 'x\n", "file.yml:2:1", "quoted scalar"),
        ("- 1\n---\n- 2\n", "file.yml:2:1", "single document"),
        ("[" * 101 + "]" * 101, "file.yml:1:101", "deeper than 100 levels"),
        ("[" * 5000, "file.yml:1:", "nesting depth"),
        ("a: " + "9" * 5000, "file.yml:1:4", "5000 digits"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_position(text: str, position: str, reason: str):
    message = refusal(text)
    assert message.startswith(position)
    assert reason in message


def test_bytes_that_are_not_utf8_are_refused():
    assert "byte 3 is not UTF-8" in refusal(b"a: \xff")


def test_control_characters_are_refused():
    assert refusal("a: \x00").startswith("file.yml: ")
