from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from dsh_cordis_loader import LoaderError, scan_entry_points
from dsh_cordis_loader._resolve import resolve_plugin


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    info = tmp_path / "res_plug-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(
        "[dsh.plugins]\nres-plug = res_plug:Thing.inner\nres-plug-whole = res_plug\n"
        "res-plug-lost = res_plug:Thin\n",
        "utf-8",
    )
    (tmp_path / "res_plug.py").write_text("class Thing:\n    inner = 'it'\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "res_plug", raising=False)
    return tmp_path


def resolve(name: str, site: Path) -> object:
    return resolve_plugin(
        name, entry_points=scan_entry_points([str(site)]), builtins={"group": "the group"}
    )


def refusal(name: str, site: Path) -> str:
    with pytest.raises(LoaderError) as caught:
        resolve(name, site)
    assert caught.value.code == "UNKNOWN_PLUGIN"
    return str(caught.value)


def test_an_entry_point_is_imported(site: Path):
    assert resolve("res-plug", site) == "it"
    assert resolve("res-plug-whole", site) is sys.modules["res_plug"]


def test_a_module_attribute_is_imported(site: Path):
    assert resolve("res_plug:Thing", site) is sys.modules["res_plug"].Thing


def test_a_builtin_needs_no_import(site: Path):
    assert resolve("cordis:group", site) == "the group"
    assert "there is cordis:group" in refusal("cordis:grup", site)


def test_a_file_is_a_module_of_its_own(site: Path):
    for folder in ("one", "two"):
        (site / folder).mkdir()
        (site / folder / "hello.py").write_text(f"NAME = {folder!r}\n", "utf-8")
    assert resolve(f"{site}/one/hello.py:NAME", site) == "one"
    assert resolve(f"{site}/two/hello.py:NAME", site) == "two"
    module = resolve(f"{site}/one/hello.py", site)
    assert resolve(f"{site}/one/hello.py", site) is module


def test_a_file_that_fails_is_run_again_next_time(site: Path):
    file = site / "late.py"
    file.write_text("1/0\n", "utf-8")
    with pytest.raises(ZeroDivisionError):
        resolve(str(file), site)
    file.write_text("VALUE = 'now it works'\n", "utf-8")
    assert resolve(f"{file}:VALUE", site) == "now it works"


def test_an_unknown_name_suggests_near_ones(site: Path):
    assert "installed are res-plug" in refusal("res-plgu", site)
    assert "none of the 3 installed plugins" in refusal("zzzzzzzz", site)


def test_a_missing_attribute_suggests_near_ones(site: Path):
    assert "did you mean 'Thing'?" in refusal("res-plug-lost", site)


def test_a_missing_module_is_named_and_one_that_a_plugin_misses_is_its_own_failure(site: Path):
    assert "there is no module 'nope'" in refusal("nope.deep:x", site)
    assert "there is no module 'res_plug.deep'" in refusal("res_plug.deep:x", site)
    (site / "needs.py").write_text("import not_installed_here\n", "utf-8")
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        resolve("needs:x", site)


def test_a_missing_file_is_named(site: Path):
    assert f"no Python file {site}/nope.py" in refusal(f"{site}/nope.py", site)
    assert "is relative" in refusal("./nope.py", site)


def test_a_plugin_file_is_run_as_it_is_now_even_if_size_and_second_are_those_of_before(
    tmp_path: Path,
) -> None:
    file = tmp_path / "edited.py"
    stamp = 1_700_000_000
    seen = []
    for value in (1, 2):
        file.write_text(f"VALUE = {value}\n")
        os.utime(file, (stamp, stamp))
        plugin = resolve_plugin(str(file), entry_points=scan_entry_points([]), builtins={})
        seen.append(plugin.VALUE)
        del sys.modules[plugin.__name__]
    assert seen == [1, 2]
    assert not (tmp_path / "__pycache__").exists()
