from __future__ import annotations

from pathlib import Path

from dsh_cordis_loader import scan_entry_points


def install(site: Path, name: str, entry_points: str | None, version: str = "1.0") -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    if entry_points is not None:
        (folder / "entry_points.txt").write_text(entry_points, "utf-8")


def test_groups_of_the_product_are_found_and_others_left_out(tmp_path: Path):
    install(
        tmp_path,
        "my_plugin",
        "[console_scripts]\nmine = my_plugin:main\n\n[dsh.plugins]\nmy-plugin = my_plugin:Thing\n"
        "my-plugin/startup = my_plugin.startup\n\n[pytest11]\nx = y\n",
    )
    points = scan_entry_points([str(tmp_path)])
    assert points.groups == ("dsh.plugins",)
    found = points["dsh.plugins"]
    assert {name: point.value for name, point in found.items()} == {
        "my-plugin": "my_plugin:Thing",
        "my-plugin/startup": "my_plugin.startup",
    }
    assert found["my-plugin"].distribution == "my-plugin"
    assert found["my-plugin"].version == "1.0"
    assert found["my-plugin"].module == "my_plugin"


def test_the_first_on_the_path_wins_whole(tmp_path: Path):
    install(tmp_path / "a", "one", "[dsh.plugins]\none = one_a\n", "2.0")
    install(tmp_path / "b", "one", "[dsh.plugins]\none = one_b\nextra = one_b:extra\n")
    install(tmp_path / "b", "two", "[dsh.plugins]\none = two\ntwo = two\n")
    found = scan_entry_points([str(tmp_path / "a"), str(tmp_path / "b")])["dsh.plugins"]
    assert {name: point.value for name, point in found.items()} == {"one": "one_a", "two": "two"}


def test_comments_extras_and_odd_lines_do_no_harm(tmp_path: Path):
    install(
        tmp_path,
        "odd",
        "# dsh.\n[ dsh.plugins ]\n; c\nodd = odd:x [extra1]\nnonsense\n\n[other]\nz = z\n",
    )
    points = scan_entry_points([str(tmp_path)])["dsh.plugins"]
    assert {name: point.value for name, point in points.items()} == {"odd": "odd:x"}


def test_unusable_path_entries_are_skipped(tmp_path: Path):
    file = tmp_path / "archive.zip"
    file.write_bytes(b"PK")
    install(tmp_path / "site", "none", None)
    folder = tmp_path / "site" / "bad-1.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_bytes(b"[dsh.plugins]\na = \xff\n")
    points = scan_entry_points([str(file), str(tmp_path / "missing"), str(tmp_path / "site")])
    assert points.groups == ()
    assert dict(points["dsh.plugins"]) == {}


def test_the_running_installation_is_the_default():
    assert "dsh-cordis-timer" in scan_entry_points()["dsh.plugins"]


def test_an_entry_point_knows_the_path_entry_that_holds_it(tmp_path: Path):
    install(tmp_path / "a", "one", "[dsh.plugins]\none = one\n")
    install(tmp_path / "b", "two", "[dsh.plugins]\ntwo = two\n")
    found = scan_entry_points([str(tmp_path / "a"), str(tmp_path / "b")])["dsh.plugins"]
    assert found["one"].location == str(tmp_path / "a")
    assert found["two"].location == str(tmp_path / "b")


def test_what_is_known_already_wins_over_what_is_added_behind_it(tmp_path: Path):
    install(tmp_path / "a", "one", "[dsh.plugins]\none = one_a\n", "2.0")
    install(tmp_path / "b", "One", "[dsh.plugins]\none = one_b\nextra = one_b:extra\n")
    install(tmp_path / "b", "two", "[dsh.plugins]\none = two\ntwo = two\n")
    before = scan_entry_points([str(tmp_path / "a")])
    points = before.extended([str(tmp_path / "b"), str(tmp_path / "gone")])
    found = points["dsh.plugins"]
    assert {name: point.value for name, point in found.items()} == {"one": "one_a", "two": "two"}
    assert dict(points.distributions) == {"one": "2.0", "two": "1.0"}
    assert list(before["dsh.plugins"]) == ["one"]


def test_distributions_without_entry_points_are_known_too(tmp_path: Path):
    install(tmp_path, "plain", None, "3.1")
    assert dict(scan_entry_points([str(tmp_path)]).distributions) == {"plain": "3.1"}
