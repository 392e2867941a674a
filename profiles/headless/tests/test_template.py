from __future__ import annotations

from pathlib import Path

from dsh_app_boot import Profile, compose, create_profile, open_profile
from dsh_cordis_include import read_patch_file
from dsh_cordis_loader import scan_entry_points


def test_the_first_use_of_the_profile_makes_it_from_the_template(tmp_path: Path):
    profile = open_profile("headless", home=tmp_path, entry_points=scan_entry_points())
    assert profile.directory == tmp_path / "profiles" / "headless"
    assert profile.bundles == ("dsh-base", "dsh-headless")
    assert 'name = "dsh-profile-headless-user"' in profile.manifest.read_text()
    assert read_patch_file(profile.patch_file) == ()


def test_a_copy_under_another_name_is_called_by_it(tmp_path: Path):
    points = scan_entry_points()
    profile: Profile = create_profile("mine", "headless", home=tmp_path, entry_points=points)
    assert 'name = "dsh-profile-mine-user"' in profile.manifest.read_text()


def test_the_bundles_of_the_template_compose_without_a_skipped_patch(tmp_path: Path):
    points = scan_entry_points()
    profile = open_profile("headless", home=tmp_path, entry_points=points)
    composition = compose(profile, home=tmp_path, entry_points=points)
    assert composition.skipped == ()
    names = [row.name for row in composition.rows]
    assert {"dsh-headless", "dsh-agent-loop"} <= set(names)
    assert not [name for name in names if name.startswith(("dsh-host-", "dsh-client-"))]
