from __future__ import annotations

import pytest
from dsh_app_boot import (
    BootError,
    Profile,
    SiteRecord,
    open_profile,
    profile_site,
    python_tag,
    read_site_record,
    site_problem,
    sync_command,
    template_bundles,
    write_site_record,
)
from dsh_cordis_loader import scan_entry_points

TAG = python_tag()


@pytest.fixture
def profile(tmp_path) -> Profile:
    return Profile(name="p", directory=tmp_path, bundles=("b",), dependencies=("one",))


def use_site(profile, name=f"abc-{TAG}", **record):
    """Put a site into use."""
    directory = profile.directory / "sites" / name
    directory.mkdir(parents=True)
    (profile.directory / "sites/current").symlink_to(name)
    fields = {"dependencies": profile.dependencies, "product": "1", "distributions": {"one": "1"}}
    write_site_record(directory, SiteRecord(**{**fields, **record}))
    return directory


def test_a_profile_without_plugins_has_no_site_and_no_problem(tmp_path):
    profile = Profile(name="p", directory=tmp_path, bundles=("b",))
    assert profile_site(profile) is None
    assert site_problem(profile, "1") is None


def test_a_site_of_this_python_for_this_manifest_is_used(profile):
    directory = use_site(profile)
    assert profile_site(profile) == directory
    assert site_problem(profile, "1") is None
    record = read_site_record(directory)
    assert record is not None
    assert record.distributions == {"one": "1"}


def test_plugins_without_a_site_are_told(profile):
    assert site_problem(profile, "1") == "its plugins are not installed"
    assert sync_command(profile) == "dsh plugin --profile p sync"


def test_a_site_of_another_python_is_not_used(profile):
    use_site(profile, "abc-cp27")
    assert profile_site(profile) is None
    assert "Python cp27" in str(site_problem(profile, "1"))


def test_a_link_that_leads_nowhere_is_told(profile):
    use_site(profile).rename(profile.directory / "sites/elsewhere")
    assert profile_site(profile) is None
    assert "is gone" in str(site_problem(profile, "1"))


@pytest.mark.parametrize(
    ("record", "product", "said"),
    [
        ({"dependencies": ("two",)}, "1", "not those of its pyproject.toml"),
        ({}, "2", "installed for dsh 1 and this is 2"),
    ],
)
def test_a_site_for_something_else_is_used_and_told(profile, record, product, said):
    assert profile_site(profile) is None
    directory = use_site(profile, **record)
    assert profile_site(profile) == directory
    assert said in str(site_problem(profile, product))


def test_a_record_that_cannot_be_read_is_told(profile):
    directory = use_site(profile)
    (directory / "dsh-site.json").write_text("{")
    assert read_site_record(directory) is None
    assert "record" in str(site_problem(profile, "1"))


def test_dependencies_that_are_no_list_of_texts_are_refused_by_name(tmp_path):
    directory = tmp_path / "profiles/p"
    directory.mkdir(parents=True)
    table = '[tool.dsh.profile]\nbundles = ["dsh-base"]\n'
    (directory / "pyproject.toml").write_text(f"[project]\ndependencies = {{}}\n{table}")
    with pytest.raises(BootError, match="dependencies must be a list of requirements"):
        open_profile("p", home=tmp_path, entry_points=scan_entry_points())


def test_the_bundles_of_all_installed_templates_are_known(site):
    site.template("one", ["base", "first"])
    site.template("two", ["base", "second"])
    assert template_bundles(site.entry_points) == {"base", "first", "second"}
