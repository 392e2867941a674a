"""Plugins of a profile that fail, or were removed by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if shutil.which("uv") is None:
    pytest.skip("the installer is not here", allow_module_level=True)


@pytest.fixture(autouse=True)
def offline(user: Any, tmp_path: Path) -> None:
    user.dsh.env |= {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def far(user: Any, wheel: Callable[..., Path]) -> Path:
    """The site of a profile with a bundle and a plugin without one, mounted by a row."""
    plain = {
        "points": {"dsh.plugins": {"far-plain": "far_plain"}},
        "files": {"far_plain/__init__.py": "def apply(ctx, config): pass\n"},
    }
    wheels = (wheel("far-bundle"), wheel("far-plain", **plain))
    user.type(f"dsh plugin --profile headless add {' '.join(map(str, wheels))}")
    user.patch.write_text("- insert: [{id: mine, name: far-plain}]\n")
    assert user.done("--strict") == []
    return (user.profile / "sites" / "current").resolve()


def _remove(site: Path, pattern: str) -> None:
    for path in site.glob(pattern):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@pytest.mark.parametrize("pattern", ["far_*[a-z]", "*.dist-info", "*", ""])
def test_plugins_that_were_removed_by_hand_are_told_and_come_back_by_command(
    user: Any, far: Path, pattern: str
) -> None:
    if pattern:
        _remove(far, pattern)
    else:
        shutil.rmtree(far.parent)
    lines = user.done()
    sync = "dsh plugin --profile headless sync"
    (bundle,) = [line for line in lines if line.startswith("dsh: far-bundle is left out: ")]
    assert f"with: {sync}; or " in bundle
    (row,) = [line for line in lines if line.startswith("dsh: row 'mine' (far-plain) is left out")]
    assert row.endswith("remove it with: dsh plugin --profile headless remove mine")
    assert user.done("--safe") == []
    user.refused("--strict")
    user.type(sync)
    assert user.done("--strict") == []


def test_plugins_that_were_removed_by_hand_can_be_given_up(user: Any, far: Path) -> None:
    shutil.rmtree(far.parent)
    user.type("dsh plugin --profile headless remove far-bundle far-plain mine")
    assert user.done("--strict") == []


def test_a_plugin_of_the_profile_that_fails_is_removed_by_its_distribution(
    user: Any, wheel: Callable[..., Path]
) -> None:
    patch = "- insert: [{id: far, name: far-bad}]\n- {id: tools, inject: [never_there]}\n"
    files = {"far_bad/__init__.py": "import not_there\n", "far_bad/cordis.patch.yml": patch}
    user.type(f"dsh plugin --profile headless add {wheel('far-bad', files=files)}")
    row, changed = user.done()
    remove = "with: dsh plugin --profile headless remove far-bad"
    assert row.startswith("dsh: row 'far' (far-bad) is left out: ")
    assert "No module named 'not_there'" in row
    assert row.endswith(f"it comes from far-bad; remove it {remove}")
    assert changed.startswith("dsh: row 'tools' (dsh-tools) runs without the changes of far-bad: ")
    assert changed.endswith(f"remove them {remove}")
    assert user.done("--safe") == []
    user.follow([row])
    assert user.done("--strict") == []
    assert "far" not in (user.profile / "pyproject.toml").read_text()
