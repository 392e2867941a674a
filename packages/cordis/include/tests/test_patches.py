from __future__ import annotations

from collections.abc import Sequence

import pytest
from dsh_cordis_include import IncludeError, Patch, apply_patches, parse_patches
from dsh_cordis_loader import Expr, Row, parse_rows, read_yaml, row_fields, walk_rows, write_yaml
from hypothesis import given
from hypothesis import strategies as st

BASE = """
- {id: a, name: pkg-a, config: {deep: {x: 1, y: 2}, list: [1]}}
- {id: b, name: pkg-b, disabled: true, inject: [svc]}
- id: g
  name: cordis:group
  group: true
  config:
    - {id: child, name: pkg-c}
    - {id: inner, name: "cordis:group", group: true, config: [{id: leaf, name: pkg-d}]}
- {id: opaque, name: "cordis:group", config: [{id: hidden, name: pkg-e}]}
"""


def base() -> tuple[Row, ...]:
    return parse_rows(read_yaml(BASE, where="base"), where="base", base="/base", origin="bundle")


def patches(text: str, layer: str = "user") -> tuple[Patch, ...]:
    value = read_yaml(text, where="p.yml")
    return parse_patches(value, where="p.yml", base="/user", layer=layer)


def applied(*layers: tuple[Patch, ...]) -> tuple[dict[str, Row], list[tuple[str, str]]]:
    warnings: list[tuple[str, str]] = []
    flat = [patch for layer in layers for patch in layer]
    rows = apply_patches(base(), flat, warn=lambda layer, text: warnings.append((layer, text)))
    return {row.id: row for row in walk_rows(rows)}, warnings


def test_insert_appends_at_the_top():
    rows, warnings = applied(patches("[{insert: [{id: n, name: ./n.py}]}]"))
    assert list(rows)[-1] == "n"
    assert rows["n"].name == "/user/n.py"
    assert rows["n"].origin == "user"
    assert warnings == []


def test_insert_into_a_group_appends_to_its_children():
    rows, warnings = applied(patches("[{id: inner, insert: [{id: n, name: x}], disabled: true}]"))
    assert [row.id for row in rows["inner"].children or ()] == ["leaf", "n"]
    assert rows["inner"].disabled is False
    assert rows["inner"].patched_by == ("user",)
    assert warnings == []


def test_insert_into_something_else_is_skipped_with_a_warning():
    for target in ("a", "opaque"):
        rows, warnings = applied(patches(f"[{{id: {target}, insert: [{{id: n, name: x}}]}}]"))
        assert "n" not in rows
        assert warnings == [("user", f'patch: entry "{target}" is not a group, nothing inserted')]


def test_a_field_is_replaced_whole():
    rows, _ = applied(patches("[{id: a, config: {deep: {x: 9}}}, {id: child, inject: [one]}]"))
    assert rows["a"].config == {"deep": {"x": 9}}
    assert rows["child"].inject == ("one",)
    assert rows["a"].name == "pkg-a"


def test_null_resets_a_field():
    rows, _ = applied(patches("[{id: b, disabled: null, inject: null}, {id: a, config: null}]"))
    assert rows["b"].disabled is False
    assert rows["b"].inject == ()
    assert rows["a"].config is None


def test_a_name_guards_the_patch():
    rows, warnings = applied(
        patches("[{id: a, name: pkg-a, disabled: true}, {id: b, name: other, disabled: false}]")
    )
    assert rows["a"].disabled is True
    assert rows["b"].disabled is True
    assert warnings == [("user", "patch: entry \"b\" is 'pkg-b', not 'other'; skipped")]


def test_a_patch_without_target_is_skipped_with_a_warning():
    _, warnings = applied(patches("[{id: nope, disabled: true}, {disabled: true}]"))
    assert warnings == [
        ("user", 'patch: entry "nope" not found'),
        ("user", "patch: id is required for non-insert patches"),
    ]


def test_rows_inserted_earlier_can_be_patched():
    rows, warnings = applied(
        patches("[{insert: [{id: n, name: x}]}, {id: n, config: 1}]", "one"),
        patches("[{id: n, disabled: true}]", "two"),
    )
    assert rows["n"].config == 1
    assert rows["n"].disabled is True
    assert rows["n"].patched_by == ("one", "two")
    assert warnings == []


def test_children_from_a_replaced_group_config_cannot_be_patched():
    rows, warnings = applied(
        patches("[{id: g, config: [{id: child, name: ./new.py}]}, {id: child, disabled: true}]")
    )
    assert rows["child"].name == "/user/new.py"
    assert rows["child"].disabled is False
    assert "leaf" not in rows
    assert warnings == [("user", 'patch: entry "child" not found')]


def test_rows_inserted_into_a_replaced_group_can_be_patched():
    rows, _ = applied(
        patches(
            "[{id: g, config: []}, {id: g, insert: [{id: n, name: x}]}, {id: n, disabled: true}]"
        )
    )
    assert rows["n"].disabled is True


def test_rows_of_an_opaque_group_cannot_be_patched():
    _, warnings = applied(patches("[{id: hidden, disabled: true}]"))
    assert warnings == [("user", 'patch: entry "hidden" not found')]


def test_expressions_pass_through_untouched():
    rows, _ = applied(patches("[{id: a, disabled: !expr env.X, config: {v: !expr cwd}}]"))
    assert rows["a"].disabled == Expr("env.X")
    assert rows["a"].config == {"v": Expr("cwd")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "must be a top-level YAML array of loader patch entries"),
        ("", "must be a top-level YAML array of loader patch entries; write [] for none"),
        ("[{id: a}, text]", "patches entry 2 in p.yml must be a mapping"),
        ("[{id: a, isolate: 1}]", "patches entry 1 in p.yml: `isolate` must be a mapping"),
        ("[{id: a, disable: true}]", "did you mean `disabled`?"),
        ("[{id: 5}]", "`id` must be text"),
        ("[{insert: {id: x}}]", "expected a list of rows"),
        ("[{insert: [{id: x}]}]", "`name` must be the name of a plugin"),
        ("[{id: a, disabled: maybe}]", "`disabled` must be true, false or !expr"),
    ],
)
def test_what_is_no_patch_is_refused_by_position(text: str, reason: str):
    with pytest.raises(IncludeError) as caught:
        patches(text)
    assert caught.value.code == "CONFIG_INVALID"
    assert reason in str(caught.value)


def test_a_group_config_that_is_no_list_of_rows_is_refused():
    with pytest.raises(IncludeError, match=r"patches entry 1 in p.yml: expected a list of rows"):
        applied(patches("[{id: g, config: {a: 1}}]"))


IDS = st.sampled_from(["a", "b", "g", "child", "inner", "leaf", "n1", "n2", "nope"])
NEW_ROWS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from(["n1", "n2", "n3"]), "name": st.just("new")}),
    max_size=2,
)
FIELDS = st.fixed_dictionaries(
    {"id": IDS},
    optional={
        "disabled": st.sampled_from([True, False, None]),
        "inject": st.sampled_from([["svc"], [], None]),
    },
)
ENTRIES = st.lists(
    st.one_of(
        FIELDS,
        st.fixed_dictionaries({"insert": NEW_ROWS}),
        st.fixed_dictionaries({"id": IDS, "insert": NEW_ROWS}),
    ),
    max_size=8,
)


def parsed(entries: Sequence[object]) -> tuple[Patch, ...]:
    return parse_patches(list(entries), where="p", layer="user")


@given(ENTRIES)
def test_patching_never_changes_its_input_nor_loses_a_row(entries: list[object]):
    before = base()
    after = apply_patches(before, parsed(entries), warn=lambda layer, text: None)
    assert before == base()
    kept = {row.id for row in walk_rows(after)}
    assert kept >= {row.id for row in walk_rows(before)}


@given(ENTRIES, ENTRIES)
def test_layers_apply_like_one_flattened_list(first: list[object], second: list[object]):
    ignore = lambda layer, text: None  # noqa: E731 - one expression
    at_once = apply_patches(base(), parsed([*first, *second]), warn=ignore)
    in_turn = apply_patches(
        apply_patches(base(), parsed(first), warn=ignore), parsed(second), warn=ignore
    )
    # Without replaced group configs every row stays addressable, so both ways agree.
    assert [row_fields(row) for row in at_once] == [row_fields(row) for row in in_turn]


@given(ENTRIES)
def test_every_patch_applies_or_is_reported(entries: list[object]):
    warnings: list[str] = []
    after = apply_patches(base(), parsed(entries), warn=lambda layer, text: warnings.append(text))
    marked = {row.id for row in walk_rows(after) if row.patched_by or row.origin == "user"}
    named = {str(entry["id"]) for entry in entries if "id" in entry}  # pyright: ignore[reportIndexIssue, reportOperatorIssue]
    for row_id in named - marked:
        assert any(f'"{row_id}"' in warning for warning in warnings)


@given(ENTRIES)
def test_what_was_patched_reads_back_to_the_same_rows(entries: list[object]):
    after = apply_patches(base(), parsed(entries), warn=lambda layer, text: None)
    written = write_yaml([row_fields(row) for row in after])
    again = parse_rows(read_yaml(written, where="w"), where="w", base=None, origin="")
    assert [row_fields(row) for row in again] == [row_fields(row) for row in after]


@given(ENTRIES)
def test_patches_for_unknown_ids_change_nothing(entries: list[object]):
    strange = [
        {**entry, "id": f"strange-{entry.get('id')}"}  # pyright: ignore[reportGeneralTypeIssues, reportAttributeAccessIssue, reportUnknownMemberType]
        for entry in entries
    ]
    warnings: list[str] = []
    after = apply_patches(base(), parsed(strange), warn=lambda layer, text: warnings.append(text))
    assert after == base()
    assert len(warnings) == len(strange)


def test_isolation_and_settings_are_replaced_and_reset_like_any_field():
    rows, _ = applied(
        patches("[{id: a, isolate: {fs: true}, intercept: {llm: {x: 1}}}]"),
        patches("[{id: a, isolate: {shell: world}}, {id: b, intercept: null}]"),
    )
    assert rows["a"].isolate == {"shell": "world"}
    assert rows["a"].intercept == {"llm": {"x": 1}}
    assert row_fields(rows["a"])["isolate"] == {"shell": "world"}


def test_a_patched_row_knows_which_layer_set_its_configuration():
    rows, _ = applied(
        patches("[{id: a, config: {x: 1}}, {id: b, disabled: false}]", "one"),
        patches("[{id: a, disabled: true}]", "two"),
    )
    assert rows["a"].config_from == "one"
    assert rows["b"].config_from == ""
