"""One file has one watch path, whether it exists or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsh_home_paths import canonical_watch_path


def test_a_path_that_does_not_exist_yet_is_resolved_from_its_deepest_existing_ancestor(
    tmp_path: Path,
) -> None:
    real, alias = tmp_path / "real", tmp_path / "alias"
    real.mkdir()
    alias.symlink_to(real)
    wanted = real.resolve() / "missing" / "deeper" / "cordis.patch.yml"
    assert canonical_watch_path(alias / "missing" / "deeper" / "cordis.patch.yml") == wanted
    assert canonical_watch_path(real / "other" / ".." / "missing/deeper/cordis.patch.yml") == wanted


def test_an_existing_file_behind_a_link_has_the_files_own_path(tmp_path: Path) -> None:
    file, alias = tmp_path / "file.yml", tmp_path / "alias.yml"
    file.write_text("[]")
    alias.symlink_to(file)
    assert canonical_watch_path(alias) == file.resolve()


def test_a_link_to_nothing_yet_has_the_path_that_it_leads_to(tmp_path: Path) -> None:
    alias = tmp_path / "alias.yml"
    alias.symlink_to(tmp_path / "later" / "file.yml")
    assert canonical_watch_path(alias) == tmp_path.resolve() / "later" / "file.yml"


def test_a_relative_path_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical_watch_path("a/b.yml") == tmp_path.resolve() / "a" / "b.yml"


def test_a_file_as_an_ancestor_raises(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(NotADirectoryError) as raised:
        canonical_watch_path(file / "missing" / "cordis.patch.yml")
    assert raised.value.filename == str(file.resolve())


@pytest.mark.parametrize("below", ["", "missing/cordis.patch.yml"])
def test_a_link_to_itself_raises(tmp_path: Path, below: str) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        canonical_watch_path(loop / below)
