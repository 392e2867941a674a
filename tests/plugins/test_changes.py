"""Adding, changing and taking away."""

from __future__ import annotations

import shutil
import tomllib

import pytest


def manifest(dsh):
    document = tomllib.loads(dsh.manifest.read_text("utf-8"))
    return document["project"]["dependencies"], document["tool"]["dsh"]["profile"]["bundles"]


def test_a_wheel_is_installed_its_bundle_mounted_and_removed_without_a_trace(dsh, wheel):
    added = dsh.done("add", wheel("dsh-one"))
    assert "+ dsh-one 1.0\n" in added.stdout
    assert "initialized profile headless at" in added.stderr
    assert "name: dsh-one" in dsh.dump()
    listed = dsh.done("list").stdout.splitlines()
    assert listed[1].split() == "dsh-one 1.0 bundle dsh-one, plugin dsh-one yes ok".split()
    before = manifest(dsh)[1]
    assert before == ["dsh-base", "dsh-headless", "dsh-one"]
    removed = dsh.done("remove", "DSH_One")
    assert removed.stdout == "- dsh-one 1.0\n"
    assert manifest(dsh) == ([], ["dsh-base", "dsh-headless"])
    assert "dsh-one" not in dsh.dump()
    assert not dsh.site.is_symlink()
    assert dsh.done("list").stdout == "profile headless has no plugins\n"


def test_comments_of_the_manifest_stay_and_its_last_good_text_is_kept(dsh, wheel):
    dsh.done("add", wheel("dsh-one"))
    text = dsh.manifest.read_text("utf-8").replace("[project]", "[project]  # mine")
    dsh.manifest.write_text(text)
    dsh.done("add", wheel("dsh-two"))
    assert "[project]  # mine\n" in dsh.manifest.read_text("utf-8")
    assert dsh.manifest.with_name("pyproject.toml.last-good").read_text("utf-8") == text


@pytest.mark.usefixtures("links")
def test_an_upgrade_takes_the_place_of_the_older_and_leaves_the_others_alone(dsh, wheel):
    wheel("dsh-one", "1.0", requires=["dsh-lib"])
    wheel("dsh-lib", "1.0", points={})
    dsh.done("add", "dsh-one", "dsh-lib")
    wheel("dsh-one", "2.0", requires=["dsh-lib"])
    wheel("dsh-lib", "2.0", points={})
    wheel("dsh-two")
    assert dsh.done("add", "dsh-two").stdout == "+ dsh-two 1.0\n"
    assert dsh.done("add", "dsh-one==2.0").stdout == "~ dsh-one 1.0 -> 2.0\n"
    assert manifest(dsh)[0] == ["dsh-one==2.0", "dsh-lib", "dsh-two"]
    assert (dsh.site / "dsh_lib-1.0.dist-info").is_dir()


@pytest.mark.usefixtures("links")
def test_an_upgrade_that_gains_or_loses_its_bundle_is_mounted_or_not(dsh, wheel):
    wheel("dsh-one", "1.0", points={"dsh.plugins": {"dsh-one": "dsh_one"}})
    added = dsh.done("add", "dsh-one==1.0").stderr
    assert "- insert:\n    - {id: dsh-one, name: dsh-one}" in added
    assert str(dsh.profile / "cordis.patch.yml") in added
    assert "dsh-one" not in dsh.dump()
    wheel("dsh-one", "2.0")
    dsh.done("add", "dsh-one==2.0")
    assert "name: dsh-one" in dsh.dump()
    dsh.done("add", "dsh-one==1.0")
    assert manifest(dsh)[1] == ["dsh-base", "dsh-headless"]
    assert "dsh-one" not in dsh.dump()


@pytest.mark.usefixtures("links")
def test_extras_and_dependencies_come_along_and_go_with_the_plugin(dsh, wheel):
    wheel("dsh-lib", points={})
    wheel("dsh-more", points={})
    one = wheel("dsh-one", requires=["dsh-lib"], extras={"more": ["dsh-more"]})
    assert dsh.done("add", f"{one}[more]").stdout.splitlines() == [
        "+ dsh-lib 1.0",
        "+ dsh-more 1.0",
        "+ dsh-one 1.0",
    ]
    assert manifest(dsh)[0] == [f"dsh_one[more] @ {one.as_uri()}"]
    wheel("dsh-two", requires=["dsh-lib"])
    dsh.done("add", "dsh-two")
    assert dsh.done("remove", "dsh-one").stdout == "- dsh-more 1.0\n- dsh-one 1.0\n"


def test_removing_needs_neither_installer_nor_the_files_that_were_installed(dsh, wheel, tmp_path):
    one, two = wheel("dsh-one"), wheel("dsh-two")
    dsh.done("add", one, two)
    one.unlink()
    two.unlink()
    shutil.rmtree(tmp_path / "cache")
    dsh.env["PATH"] = str(tmp_path)
    dsh.done("remove", "dsh-one")
    assert "name: dsh-two" in dsh.dump()
    assert "dsh-two" in dsh.done("list").stdout
    assert dsh.done("sync").stderr == "dsh: the installed plugins are those of pyproject.toml\n"


def project(directory, version="1.0", body=""):
    """A plugin with a build backend of its own, so that building needs no index."""
    directory.mkdir(exist_ok=True)
    (directory / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "dsh-here"\nversion = "{version}"\n'
    )
    (directory / "backend.py").write_text(BACKEND)
    (directory / "body.py").write_text(body)


BACKEND = """
import tomllib, zipfile
from pathlib import Path

def build_wheel(directory, config_settings=None, metadata_directory=None):
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    info = f"dsh_here-{version}.dist-info"
    files = {
        "dsh_here.py": Path("body.py").read_text() + "\\ndef apply(ctx, config): pass\\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: dsh-here\\nVersion: {version}\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/entry_points.txt": "[dsh.plugins]\\ndsh-here = dsh_here\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in files)
    name = f"dsh_here-{version}-py3-none-any.whl"
    with zipfile.ZipFile(Path(directory) / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name
"""


@pytest.mark.parametrize("word", ["./here", "here/", "file:here", "file:./here", "dsh-here @ here"])
def test_a_directory_is_built_and_stored_by_its_absolute_path(dsh, word):
    project(dsh.cwd / "here")
    dsh.done("add", word)
    assert manifest(dsh)[0] == [f"dsh-here @ {(dsh.cwd / 'here').as_uri()}"]
    assert (dsh.site / "dsh_here.py").is_file()


def test_the_current_directory_is_a_plugin_too(dsh):
    project(dsh.cwd)
    dsh.done("add", ".")
    assert manifest(dsh)[0] == [f"dsh-here @ {dsh.cwd.as_uri()}"]


def test_sync_builds_a_directory_again_and_finds_no_change_if_there_is_none(dsh):
    project(dsh.cwd / "here")
    dsh.done("add", "./here")
    first = dsh.site.resolve()
    project(dsh.cwd / "here", body="CHANGED = True")
    dsh.done("sync")
    assert "CHANGED" in (dsh.site / "dsh_here.py").read_text()
    assert dsh.site.resolve() != first
    assert first.is_dir(), "a dsh that runs may still import from it"
    project(dsh.cwd / "here", version="2.0")
    assert dsh.done("sync").stdout == "~ dsh-here 1.0 -> 2.0\n"
    assert not first.exists()


def test_a_row_of_the_profile_or_of_the_home_is_removed_by_its_id(dsh):
    dsh.run("headless", "--help")
    rows = "# keep\n- insert:\n    - {id: mine, name: ./mine.py}\n- {id: timer, disabled: true}\n"
    (dsh.profile / "cordis.patch.yml").write_text(rows)
    (dsh.home / "cordis.patch.yml").write_text(rows.replace("mine", "ours"))
    assert "- row mine of" in dsh.done("remove", "mine").stdout
    assert "# keep" in (dsh.profile / "cordis.patch.yml").read_text()
    dsh.done("remove", "ours", "timer")
    assert "timer" not in (dsh.profile / "cordis.patch.yml").read_text()
    assert "ours" not in (dsh.home / "cordis.patch.yml").read_text()
    failed = dsh.plugin("remove", "nothing")
    assert failed.code == 1
    assert "no plugin and no row nothing" in failed.stderr


def test_the_row_of_a_removed_plugin_is_named_with_the_command_that_removes_it(dsh, wheel):
    dsh.done("add", wheel("dsh-one", points={"dsh.plugins": {"dsh-one": "dsh_one"}}))
    (dsh.profile / "cordis.patch.yml").write_text("- insert:\n    - {id: o, name: dsh-one}\n")
    assert " yes " in dsh.done("list").stdout
    assert "dsh plugin --profile headless remove o" in dsh.done("remove", "dsh-one").stderr
    dsh.done("remove", "o")
    assert "dsh-one" not in dsh.dump()


def test_a_distribution_of_the_installation_is_used_as_it_is(dsh):
    added = dsh.done("add", "dsh-tool-todo")
    assert "dsh-tool-todo 0.1.0 is part of the running installation" in added.stderr
    assert "ok (part of the installation)" in dsh.done("list").stdout
    dsh.done("remove", "dsh-tool-todo")
    assert manifest(dsh) == ([], ["dsh-base", "dsh-headless"])


def test_bundles_of_the_template_outlive_their_dependency(dsh):
    dsh.done("add", "dsh-base")
    dsh.done("remove", "dsh-base")
    assert manifest(dsh) == ([], ["dsh-base", "dsh-headless"])
