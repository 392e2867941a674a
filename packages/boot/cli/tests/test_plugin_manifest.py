from __future__ import annotations

import tomllib

import pytest
from dsh_cli._plugin_errors import PluginError
from dsh_cli._plugin_manifest import edit_manifest
from dsh_cli._plugin_specs import requirement_name
from hypothesis import given
from hypothesis import strategies as st

TABLE = '[tool.dsh.profile]\nbundles = ["a"]\n'


def edited(text, dependencies, bundles=("a",)):
    return edit_manifest(
        text,
        dependencies=dependencies,
        bundles=bundles,
        name_of=lambda one: requirement_name(one) or one,
    )


def project(value):
    return f"[project]\ndependencies = {value}\n{TABLE}"


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("[]", ["x"], '["x"]'),
        ("[ ]", ["x"], '["x"]'),
        ('["x"]', [], "[]"),
        ("['x']  # why", ["x", "y"], "['x', \"y\"]  # why"),
        ('["x", "y"]', ["y"], '["y"]'),
        ('["x", "y"]', ["x"], '["x"]'),
        ('["x", "y", "z"]', ["x", "z"], '["x", "z"]'),
        ('["x>1", "y"]', ["x>2", "y"], '["x>2", "y"]'),
        ('["x", # one,\n"y"]', ["x"], '["x", # one,\n]'),
        ('["x",]', ["x", "y"], '["x", "y",]'),
        ('[\n  "x",\n]', ["x", "y"], '[\n  "x",\n  "y",\n]'),
        ('[\n  "x"\n]', ["x", "y"], '[\n  "x",\n  "y",\n]'),
        ('[\n  "x"  # why\n]', ["x", "y"], '[\n  "x",  # why\n  "y",\n]'),
        ('[\n  "x"]', ["x", "y"], '[\n  "x",\n  "y"]'),
        ('[\n  # one\n  "x",  # gone too\n  "y",\n]', ["y"], '[\n  # one\n  "y",\n]'),
        ("[\n  # none yet\n]", ["x"], '[\n  # none yet\n    "x",\n]'),
    ],
)
def test_layout_and_comments_of_a_list_stay(before, wanted, after):
    assert edited(project(before), wanted) == project(after)


def test_a_list_that_is_not_there_is_written_into_its_table():
    text = f'[project]\nname = "p"  # mine\n\n{TABLE}'
    assert edited(text, ["x"]) == (
        f'[project]\nname = "p"  # mine\ndependencies = ["x"]\n\n{TABLE}'
    )
    assert edited(TABLE, ["x"]) == f'{TABLE}\n[project]\ndependencies = ["x"]\n'


def test_line_ends_stay_as_they_are():
    text = project('[\n  "x",\n]').replace("\n", "\r\n")
    assert edited(text, ["x", "y"]) == project('[\n  "x",\n  "y",\n]').replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'project.dependencies = ["x"]\n' + TABLE,
        'project = {dependencies = ["x"]}\n' + TABLE,
        '[project]\ndependencies = ["x"]\n[tool.dsh]\nprofile.bundles = ["a"]\n',
    ],
)
def test_a_shape_that_is_not_edited_is_refused_with_what_to_write(text):
    with pytest.raises(PluginError, match='dependencies = \\["x", "y"\\]') as caught:
        edited(text, ["x", "y"], ["a", "b"])
    assert caught.value.code == "MANIFEST"


names = st.lists(st.sampled_from(list("abcdefgh")), unique=True, max_size=6)
comment = st.sampled_from(["", "  # [one], 'two' \"three\""])
lead = st.sampled_from(["", " ", "\n", "\n  # own,\n  "])
filler = st.sampled_from(
    ["", "# c = [\n", 's = """\n[project]\n"""\n', "l = [[1], ['] #']]  # x\n", "d = {a = [1]}\n"]
)


@st.composite
def manifests(draw):
    def array(values):
        parts = [f'{draw(lead)}"{value}"' for value in values]
        inner = ",".join(parts) + ("," if parts and draw(st.booleans()) else "")
        return f"[{inner}{draw(st.sampled_from(['', ' ', chr(10)]))}]{draw(comment)}\n"

    return "".join(
        [
            draw(filler),
            "[ project ]" + draw(comment) + "\n",
            draw(filler),
            "dependencies=" + array(draw(names)),
            "[tool.other]\n",
            draw(filler),
            '[tool."dsh".profile]\n',
            "bundles = " + array(draw(names)),
            draw(filler),
        ]
    )


@given(manifests(), names, names)
def test_any_manifest_ends_with_the_wanted_lists_and_all_else_as_it_was(text, wanted, bundles):
    before = tomllib.loads(text)
    known = before["project"]["dependencies"]
    # Those that stay keep their order, new ones follow: so does dsh plugin.
    wanted = [one for one in known if one in wanted] + [one for one in wanted if one not in known]
    held = before["tool"]["dsh"]["profile"]["bundles"]
    bundles = [one for one in held if one in bundles] + [one for one in bundles if one not in held]
    before["project"]["dependencies"] = wanted
    before["tool"]["dsh"]["profile"]["bundles"] = bundles
    after = edited(text, wanted, bundles)
    assert tomllib.loads(after) == before
    assert edited(after, wanted, bundles) == after
