from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dsh_app_boot import BootError, Composition, compose, dump_rows, open_profile, unlisted_bundles
from dsh_cordis_include import IncludeError
from dsh_cordis_loader import Expr, Row, parse_rows, read_yaml, row_fields
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import Site


@pytest.fixture(autouse=True)
def _installed(site: Site) -> None:
    site.bundle(
        "low",
        """
        - insert:
            - {id: a, name: pkg-a, config: {maxItems: 1}}
            - {id: b, name: pkg-b}
        """,
    )
    site.bundle("high", "[{id: a, config: {from: high}}, {insert: [{id: c, name: ./c.py}]}]")
    site.template("app", ["low", "high"])


def composed(
    site: Site, home: Path, overlays: Sequence[Path] = (), *, user_layers: bool = True
) -> Composition:
    points = site.entry_points
    profile = open_profile("app", home=home, entry_points=points)
    return compose(
        profile, home=home, entry_points=points, overlays=overlays, user_layers=user_layers
    )


def configs(composition: Composition) -> dict[str, object]:
    return {row.id: row.config for row in composition.rows}


def test_bundles_apply_in_the_listed_order(site: Site, home: Path):
    composition = composed(site, home)
    assert configs(composition) == {"a": {"from": "high"}, "b": None, "c": None}
    assert composition.rows[2].name == str(site.directory / "high" / "c.py")
    assert composition.skipped == ()


def test_profile_then_home_then_overlays_win(site: Site, home: Path, tmp_path: Path):
    composed(site, home)
    files = [home / "profiles/app/cordis.patch.yml", home / "cordis.patch.yml"]
    files += [tmp_path / "one.yml", tmp_path / "two.yml"]
    for count in range(1, 5):
        files[count - 1].write_text(f"[{{id: b, config: {count}}}]")
        overlays = files[2:count]
        assert configs(composed(site, home, overlays))["b"] == count


def test_without_user_layers_no_file_of_the_user_is_read(site: Site, home: Path):
    composed(site, home)
    (home / "cordis.patch.yml").write_text("a: 'broken")
    assert configs(composed(site, home, user_layers=False))["b"] is None
    with pytest.raises(IncludeError):
        composed(site, home)


def test_a_missing_overlay_is_an_error(site: Site, home: Path, tmp_path: Path):
    with pytest.raises(IncludeError, match="failed to read patches"):
        composed(site, home, [tmp_path / "none.yml"])


def test_composing_imports_no_plugin_and_no_bundle(site: Site, home: Path):
    (site.directory / "low" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    assert "a" in configs(composed(site, home))


def test_a_bundle_that_is_not_installed_is_named_with_its_manifest(site: Site, home: Path):
    composed(site, home)
    manifest = home / "profiles/app/pyproject.toml"
    manifest.write_text('[tool.dsh.profile]\nbundles = ["low", "hihg"]\n')
    with pytest.raises(BootError) as caught:
        composed(site, home)
    assert caught.value.code == "UNKNOWN_BUNDLE"
    assert str(manifest) in str(caught.value)
    assert "bundle 'hihg' is not installed (did you mean high?); installed are" in str(caught.value)


def test_a_bundle_without_its_patch_is_named(site: Site, home: Path):
    (site.directory / "high" / "cordis.patch.yml").unlink()
    with pytest.raises(BootError, match=r"'high' \(high 1.0\) has no cordis.patch.yml"):
        composed(site, home)


def test_installed_bundles_that_a_profile_leaves_out_are_known(site: Site, home: Path):
    site.bundle("extra", "[]")
    profile = open_profile("app", home=home, entry_points=site.entry_points)
    assert unlisted_bundles(profile, site.entry_points) == ("extra",)


def test_a_patch_without_target_is_told_with_its_layer(site: Site, home: Path):
    composed(site, home)
    file = home / "cordis.patch.yml"
    file.write_text("[{id: nope, disabled: true}]")
    (skipped,) = composed(site, home).skipped
    assert (skipped.layer, skipped.message) == (str(file), 'patch: entry "nope" not found')
    assert skipped.remedy == (
        "correct its id, or remove it with: dsh plugin --profile app remove nope"
    )


def test_a_dump_names_both_layers_and_reads_back(site: Site, home: Path, tmp_path: Path):
    overlay = tmp_path / "over.yml"
    overlay.write_text("[{id: c, config: {max_items: 2, why: !expr \"env.get('X', 'y')\"}}]")
    composition = composed(site, home, [overlay])
    text = dump_rows(composition.rows)
    assert "# == low, patched by high\n- id: a\n" in text
    assert "# == low\n- id: b\n" in text
    assert f"# == high, patched by {overlay}\n- id: c\n" in text
    assert "maxItems: 2" in text
    assert "!expr \"env.get('X', 'y')\"" in text
    back = parse_rows(read_yaml(text, where="dump"), where="dump", base=None, origin="")
    expected = [row_fields(row) for row in composition.rows]
    expected[2]["config"] = {"maxItems": 2, "why": Expr("env.get('X', 'y')")}
    assert [row_fields(row) for row in back] == expected


def test_a_dump_of_nothing_is_an_empty_list():
    assert read_yaml(dump_rows([]), where="dump") == []


def test_a_dump_keeps_nested_keys_and_colliding_ones():
    row = Row(id="a", name="x", config={"env_vars": {"my_key": 1}, "a_b": 1, "aB": 2, "_x": 3})
    text = dump_rows([row])
    assert read_yaml(text, where="d") == [
        {
            "id": "a",
            "name": "x",
            "config": {"envVars": {"my_key": 1}, "a_b": 1, "aB": 2, "_x": 3},
        }
    ]


def test_a_layer_with_a_line_break_in_its_name_stays_a_comment():
    row = Row(id="a", name="x", origin="one\n- id: b", patched_by=("t\u2028wo\r",))
    text = dump_rows([row])
    assert text.startswith("# == one - id: b, patched by t wo \n")
    assert read_yaml(text, where="d") == [{"id": "a", "name": "x"}]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    st.sampled_from(["off", "0o17", "010", "1e3", "~", "null", "2020-01-01", "=", "<<", "a\nb\n"]),
    st.sampled_from(["env.A", "'a' + \"b\"", "x if y else [1, *z]"]).map(Expr),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("aB:- #0", max_size=4), inner)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_any_config_survives_a_dump(config: object):
    (row,) = read_yaml(dump_rows([Row(id="a", name="x", config=config)]), where="d")  # pyright: ignore[reportGeneralTypeIssues]
    assert row.get("config") == config
