from __future__ import annotations

import pytest
from dsh_cordis_loader import Expr, LoaderError, Row, parse_rows, row_fields, walk_rows


def rows(*values: object, base: str | None = "/conf") -> tuple[Row, ...]:
    return parse_rows(list(values), where="file.yml", base=base, origin="layer")


def refusal(value: object) -> str:
    with pytest.raises(LoaderError) as caught:
        rows(value)
    assert caught.value.code == "INVALID_ROW"
    return str(caught.value)


def test_a_row_keeps_what_the_file_says():
    (row,) = rows(
        {
            "id": "a",
            "name": "pkg-a",
            "disabled": Expr("env.X"),
            "inject": ["some_service", "some_service"],
            "config": {"n": [Expr("1")]},
        }
    )
    assert row.disabled == Expr("env.X")
    assert row.inject == ("some_service",)
    assert row_fields(row) == {
        "id": "a",
        "name": "pkg-a",
        "disabled": Expr("env.X"),
        "inject": ["some_service"],
        "config": {"n": [Expr("1")]},
    }
    assert row.origin == "layer"


def test_null_fields_are_unset():
    (row,) = rows({"id": "a", "name": "x", "disabled": None, "inject": None, "config": None})
    assert row == Row(id="a", name="x", origin="layer", base="/conf")


def test_a_row_without_id_gets_the_same_one_every_time():
    first, second = rows({"name": "x"}, {"name": "x"})
    assert first.id != second.id
    assert (first, second) == rows({"name": "x"}, {"name": "x"})


def test_a_relative_plugin_file_is_anchored_at_its_file():
    assert [row.name for row in rows({"name": "./a.py"}, {"name": "../b.py:thing"})] == [
        "/conf/a.py",
        "/b.py:thing",
    ]


def test_a_group_holds_rows():
    (group,) = rows(
        {
            "id": "g",
            "name": "cordis:group",
            "group": True,
            "config": [{"id": "a", "name": "./a.py"}],
        }
    )
    assert [row.id for row in walk_rows([group])] == ["g", "a"]
    assert group.children is not None
    assert group.children[0].name == "/conf/a.py"
    assert row_fields(group)["config"] == [{"id": "a", "name": "/conf/a.py"}]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("text", "expected a mapping, got 'text'"),
        ({"id": "a"}, "`name` must be the name of a plugin, got nothing"),
        ({"id": 5, "name": "x"}, "`id` must be text, got 5"),
        ({"id": "a", "name": "x", "isolate": ["fs"]}, "`isolate` must be a mapping by service"),
        ({"id": "a", "name": "x", "isolate": {"fs": False}}, "fs must be true or the text of a"),
        ({"id": "a", "name": "x", "isolate": {"fs": Expr("1")}}, "got an expression"),
        ({"id": "a", "name": "x", "isolate": {"fileSystem": True}}, "no snake_case service name"),
        ({"id": "a", "name": "x", "intercept": {"fs": 1}}, "fs must be a mapping of settings"),
        ({"id": "a", "name": "x", "intercept": {"fs": {"a": [Expr("1")]}}}, "holds an !expr"),
        ({"id": "a", "name": "x", "confg": {}}, "unknown field `confg`; did you mean `config`?"),
        ({"id": "a", "name": "x", "disabled": "yes"}, "`disabled` must be true, false or !expr"),
        ({"id": "a", "name": "x", "group": Expr("1")}, "`group` must be true or false"),
        ({"id": "a", "name": "x", "inject": {"fs": {}}}, "must be a list of service names"),
        ({"id": "a", "name": "x", "inject": ["sandBox"]}, "no snake_case service name"),
        ({"id": "a", "name": "x", "group": True}, "needs `name: cordis:group`"),
        ({"id": "a", "name": "cordis:group", "config": {}}, "expected a list of rows"),
    ],
)
def test_a_wrong_row_is_refused_by_field(value: object, reason: str):
    message = refusal(value)
    assert message.startswith("file.yml, row 1")
    assert reason in message


def test_a_wrong_row_names_its_id():
    assert refusal({"id": "tools", "name": "x", "isolate": 1}).startswith("file.yml, row 1 (tools)")


def test_a_mapping_is_no_list_of_rows():
    with pytest.raises(LoaderError, match="expected a list of rows, got a mapping"):
        parse_rows({"a": 1}, where="f", base=None, origin="")
