from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dsh_app_boot import (
    BootError,
    Profile,
    bundle_hint,
    check_home_writable,
    create_profile,
    open_profile,
    shipped_profile,
)

if TYPE_CHECKING:
    from conftest import Site


@pytest.fixture(autouse=True)
def _installed(site: Site) -> None:
    site.bundle("one", "[]")
    site.bundle("two", "[]")
    site.template("shipped", ["one", "two"], "# mine\n[]\n")


def opened(name: str, site: Site, home: Path, *, create: bool = True) -> Profile:
    return open_profile(name, home=home, entry_points=site.entry_points, create=create)


def refusal(name: str, site: Site, home: Path) -> BootError:
    with pytest.raises(BootError) as caught:
        opened(name, site, home)
    return caught.value


def test_the_first_use_copies_the_template_into_an_empty_home(site: Site, home: Path):
    profile = opened("shipped", site, home)
    assert profile.bundles == ("one", "two")
    assert profile.directory == home / "profiles" / "shipped"
    assert profile.patch_file.read_text() == "# mine\n[]\n"
    assert [path.name for path in (home / "profiles").iterdir()] == ["shipped"]


def test_edits_of_the_user_survive_later_uses(site: Site, home: Path):
    profile = opened("shipped", site, home)
    profile.manifest.write_text('[tool.dsh.profile]\nbundles = ["two"]\n')
    profile.patch_file.unlink()
    assert opened("shipped", site, home).bundles == ("two",)
    assert not profile.patch_file.exists()


def test_a_half_made_profile_of_a_template_is_completed_without_overwriting(site: Site, home: Path):
    directory = home / "profiles" / "shipped"
    directory.mkdir(parents=True)
    (directory / "cordis.patch.yml").write_text("# kept\n[]\n")
    profile = opened("shipped", site, home)
    assert profile.bundles == ("one", "two")
    assert profile.patch_file.read_text() == "# kept\n[]\n"


def test_a_half_made_profile_without_template_is_explained(site: Site, home: Path):
    (home / "profiles" / "mine").mkdir(parents=True)
    error = refusal("mine", site, home)
    assert error.code == "INVALID_PROFILE"
    assert "has no pyproject.toml" in str(error)
    assert "installed bundles are one, two" in str(error)


def test_a_profile_that_cannot_be_looked_at_is_explained(site: Site, home: Path):
    (home / "profiles").mkdir(parents=True)
    error = refusal("x" * 300, site, home)
    assert error.code == "INVALID_PROFILE"
    assert "it cannot be read: File name too long" in str(error)


def test_many_first_uses_at_once_agree(site: Site, home: Path):
    points = site.entry_points
    with ThreadPoolExecutor(8) as pool:
        profiles = list(
            pool.map(lambda _: open_profile("shipped", home=home, entry_points=points), range(16))
        )
    assert {profile.bundles for profile in profiles} == {("one", "two")}
    assert [path.name for path in (home / "profiles").iterdir()] == ["shipped"]


def test_reading_without_creating_writes_nothing(site: Site, home: Path):
    assert opened("shipped", site, home, create=False).bundles == ("one", "two")
    assert not home.exists()


def test_an_unknown_profile_lists_those_there_are_and_how_to_create_it(site: Site, home: Path):
    create_profile("mine", "shipped", home=home, entry_points=site.entry_points)
    error = refusal("nope", site, home)
    assert error.code == "UNKNOWN_PROFILE"
    assert str(error) == (
        'profile "nope" does not exist; there are shipped, mine; create it with:'
        " dsh nope --from-default-profile shipped"
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "a/b",
        "a\\b",
        "../x",
        "-x",
        ".hidden",
        "a b",
        "a\n",
        "a\x00",
        "plugin",
        "doctor",
        "session",
        "demo",
        "help",
    ],
)
def test_a_name_that_cannot_be_a_directory_or_is_a_command_is_refused(
    site: Site, home: Path, name: str
):
    error = refusal(name, site, home)
    assert error.code == "INVALID_PROFILE_NAME"
    assert str(error).startswith(f'invalid profile name "{name}"')
    assert not home.exists()


def test_a_new_profile_is_made_from_a_template_under_its_own_name(site: Site, home: Path):
    profile = create_profile("mine", "shipped", home=home, entry_points=site.entry_points)
    assert profile.bundles == ("one", "two")
    assert 'name = "dsh-profile-mine-user"' in profile.manifest.read_text()


def test_a_profile_that_exists_is_not_made_again(site: Site, home: Path):
    opened("shipped", site, home)
    with pytest.raises(BootError, match="exists already") as caught:
        create_profile("shipped", "shipped", home=home, entry_points=site.entry_points)
    assert caught.value.code == "PROFILE_EXISTS"


def test_an_unknown_template_lists_those_there_are(site: Site, home: Path):
    with pytest.raises(BootError, match="installed are shipped") as caught:
        create_profile("mine", "nope", home=home, entry_points=site.entry_points)
    assert caught.value.code == "UNKNOWN_TEMPLATE"
    assert not home.exists()


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("[tool.dsh.profile", "it is no TOML"),
        ("[project]\nname = 'x'\n", "it lacks [tool.dsh.profile]"),
        ("tool = 5\n", "it lacks [tool.dsh.profile]"),
        ("[tool.dsh.profile]\n", "bundles must be a list of bundle names"),
        ("[tool.dsh.profile]\nbundles = 'one'\n", "bundles must be a list of bundle names"),
        ("[tool.dsh.profile]\nbundles = [1]\n", "bundles must be a list of bundle names"),
        ("[tool.dsh.profile]\nbundles = []\n", "bundles is empty"),
        ("[tool.dsh.profile]\nbundles = ['one', 'one']\n", "names 'one' twice"),
        ("[tool.dsh.profile]\nbundles = ['one']\nbundle = 1\n", "unknown key 'bundle'"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_explained(
    site: Site, home: Path, manifest: str, reason: str
):
    directory = home / "profiles" / "mine"
    directory.mkdir(parents=True)
    (directory / "pyproject.toml").write_text(manifest)
    error = refusal("mine", site, home)
    assert error.code == "INVALID_PROFILE"
    assert str(error).startswith(f"profile 'mine' at {directory / 'pyproject.toml'}: ")
    assert reason in str(error)


def test_an_unreadable_manifest_is_explained(site: Site, home: Path):
    directory = home / "profiles" / "mine"
    directory.mkdir(parents=True)
    (directory / "pyproject.toml").write_bytes(b"a = '\xff'\n")
    assert "it is no TOML" in str(refusal("mine", site, home))


def test_a_home_that_is_a_file_cannot_hold_a_profile(site: Site, home: Path):
    home.write_text("")
    error = refusal("shipped", site, home)
    assert error.code == "HOME_NOT_WRITABLE"
    assert "set DSH_HOME to a directory that is" in str(error)
    with pytest.raises(BootError, match="is not a directory"):
        check_home_writable(home)


@pytest.mark.parametrize("target", ["gone", "home"])
def test_a_home_that_is_a_link_to_nothing_is_named(home: Path, target: str):
    home.symlink_to(home.parent / target)
    with pytest.raises(BootError, match="leads nowhere") as caught:
        check_home_writable(home)
    assert caught.value.code == "HOME_NOT_WRITABLE"


def test_a_writable_or_creatable_home_passes(home: Path):
    check_home_writable(home / "not" / "yet")
    home.mkdir()
    check_home_writable(home)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        Path.mkdir,
        lambda file: file.symlink_to(file.name),
        lambda file: file.write_text(""),
    ],
)
def test_a_manifest_that_is_none_says_how_to_go_on_and_is_never_written_over(
    site: Site, home: Path, make: Callable[[Path], object]
):
    opened("shipped", site, home)
    manifest = home / "profiles/shipped/pyproject.toml"
    manifest.unlink()
    make(manifest)
    error = refusal("shipped", site, home)
    assert error.code == "INVALID_PROFILE"
    assert "correct it, or move it away, and the shipped one is used" in str(error)
    assert "dsh shipped --safe" in str(error)
    with pytest.raises(BootError):
        opened("shipped", site, home, create=False)
    shipped = shipped_profile("shipped", site.entry_points)
    assert shipped is not None
    assert shipped.bundles == ("one", "two")
    kept = manifest.with_name("pyproject.toml.last-good")
    kept.write_text("")
    assert f"restore {kept}" in str(refusal("shipped", site, home))


def test_a_misspelt_profile_is_told_with_the_nearest_name(site: Site, home: Path):
    assert '"shiped" does not exist (did you mean shipped?)' in str(refusal("shiped", site, home))
    site.install("tool", {}, {"dsh.commands/inspect": "tool:main"})
    said = str(refusal("inspct", site, home))
    assert '"inspct" does not exist (did you mean the command inspect?)' in said


def test_a_profile_that_lacks_a_bundle_is_told_what_to_write(site: Site, home: Path):
    opened("shipped", site, home)
    manifest = home / "profiles/shipped/pyproject.toml"
    manifest.write_text('[tool.dsh.profile]\nbundles = ["two"]\n')
    profile = opened("shipped", site, home)
    assert bundle_hint(profile, site.entry_points) == (
        "the profile 'shipped' starts the bundles two; installed but not listed in"
        f' {manifest}: one; write bundles = ["one", "two"]'
    )


def test_a_home_whose_profiles_are_a_file_is_named(home: Path):
    home.mkdir()
    (home / "profiles").write_text("")
    with pytest.raises(BootError, match="profiles is not a directory"):
        check_home_writable(home)
