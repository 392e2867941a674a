"""What is refused, and that nothing changes then."""

from __future__ import annotations

import importlib.util
import shutil

import pytest


def refused(dsh, *args, code=1):
    before = dsh.snapshot() if dsh.profile.exists() else None
    done = dsh.plugin(*args)
    assert done.code == code, done.stderr
    assert done.stdout == ""
    if before is not None:
        assert dsh.snapshot() == before
    return done.stderr


def test_a_plugin_for_another_kernel_is_refused_with_both_requirements(dsh, wheel):
    dsh.done("add", wheel("dsh-one"))
    said = refused(dsh, "add", wheel("dsh-late", requires=["dsh-cordis>=7"]))
    assert f"dsh: uv failed in profile directory {dsh.profile}" in said
    assert (
        "dsh-late==1.0 needs dsh-cordis>=7, and the running installation has dsh-cordis 0.1.0"
    ) in said
    assert "dsh-one" in dsh.dump()


def test_a_conflict_in_a_new_profile_leaves_what_the_template_made(dsh, wheel):
    dsh.run("headless", "--help")
    refused(dsh, "add", wheel("dsh-late", requires=["dsh-cordis<0.1"]))
    assert sorted(dsh.snapshot()) == ["cordis.patch.yml", "pyproject.toml"]


@pytest.mark.usefixtures("links")
def test_two_plugins_that_exclude_each_other_are_refused_with_both_requirements(dsh, wheel):
    wheel("dsh-lib", "1.0", points={})
    wheel("dsh-lib", "2.0", points={})
    dsh.done("add", wheel("dsh-one", requires=["dsh-lib<2"]))
    said = refused(dsh, "add", wheel("dsh-two", requires=["dsh-lib>=2"]))
    assert "dsh-one==1.0 needs dsh-lib<2" in said
    assert "dsh-two==1.0 needs dsh-lib>=2" in said


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ({"dsh.plugins": {"dsh-one": "dsh_gone"}}, "has no module 'dsh_gone' in it"),
        ({"dsh.plugins": {"dsh-one": "dsh_one.deep:x"}}, "has no module 'dsh_one.deep' in it"),
        ({"dsh.plugins": {"dsh-one": "dsh one!"}}, "is neither module nor module:attr"),
        ({"dsh.bundles": {"dsh-one": "json"}}, "names a package without cordis.patch.yml"),
    ],
)
def test_a_distribution_whose_entry_points_lead_nowhere_is_refused(dsh, wheel, points, problem):
    dsh.run("headless", "--help")
    assert problem in refused(dsh, "add", wheel("dsh-one", points=points))
    assert not (dsh.profile / "sites").exists()


def test_a_bundle_that_cannot_be_read_is_refused(dsh, wheel):
    dsh.run("headless", "--help")
    files = {"dsh_one/__init__.py": "", "dsh_one/cordis.patch.yml": "- insert: 7\n"}
    said = refused(dsh, "add", wheel("dsh-one", files=files))
    assert "names a bundle that cannot be read" in said


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "needs one of add, remove, list, sync"),
        (("install",), "got 'install'"),
        (("add",), "needs at least one name"),
        (("list", "x"), "takes no 'x'"),
        (("add", "-e", "."), "a row with name: ./plugin.py"),
        (("add", "--editable=."), "a row with name: ./plugin.py"),
        (("add", "--upgrade", "x"), "hands none to uv"),
        (("add", "./nowhere"), "there is no "),
        (("add", "x.whl"), "there is no "),
        (("add", "a b"), "is no requirement, path or URL"),
        (("add", ""), "got an empty one"),
        (("add", "./plugin.py"), "name: ./file.py"),
        (("add", "./empty"), "is no Python project"),
        (("add", "dsh-a", "dsh_A==1"), "is to be added twice"),
        (("add", "https://u:secret@h.invalid/x.whl"), "holds credentials"),
        (("add", "x @ https://secret@h.invalid/x.whl"), "holds credentials"),
    ],
)
def test_misuse_is_refused_before_anything_is_changed(dsh, args, said):
    dsh.run("headless", "--help")
    (dsh.cwd / "plugin.py").touch()
    (dsh.cwd / "empty").mkdir()
    told = refused(dsh, *args)
    assert said in told
    assert "secret" not in told


def test_a_profile_has_to_be_named_and_to_have_a_template(dsh):
    assert "needs --profile NAME" in dsh.run("plugin", "list").stderr
    done = dsh.run("plugin", "--profile", "nope", "add", "dsh-tool-todo")
    assert done.code == 1
    assert "there are headless" in done.stderr
    assert not dsh.home.exists()


def test_credentials_of_an_index_never_show_in_what_uv_says(dsh):
    dsh.env["UV_OFFLINE"] = "0"
    index = "http://user:hunter2@127.0.0.1:9/index"
    dsh.env |= {"UV_DEFAULT_INDEX": index, "UV_HTTP_RETRIES": "0"}
    said = refused(dsh, "add", "dsh-nowhere", code=2)
    assert "hunter2" not in said
    assert "127.0.0.1:9/index" in said


def test_the_status_of_the_installer_is_passed_on(dsh):
    dsh.env["UV_INDEX_STRATEGY"] = "no such thing"
    assert "uv failed in profile directory" in refused(dsh, "add", "dsh-nowhere", code=2)


@pytest.mark.skipif(importlib.util.find_spec("uv") is not None, reason="uv is installed here")
def test_without_uv_the_status_is_127_and_the_extra_is_named(dsh, tmp_path):
    dsh.env["PATH"] = str(tmp_path)
    assert "pip install 'dsh-cli[plugins]'" in refused(dsh, "add", "dsh-nowhere", code=127)


@pytest.mark.skipif(shutil.which("uv", path="/usr/bin:/bin") is not None, reason="uv is there")
def test_uv_of_the_distribution_of_that_name_is_used(dsh, wheel, tmp_path):
    package = tmp_path / "path/uv"
    package.mkdir(parents=True)
    program = shutil.which("uv")
    (package / "__init__.py").write_text(f"def find_uv_bin():\n    return {program!r}\n")
    dsh.env |= {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "path")}
    dsh.done("add", wheel("dsh-one"))


def test_help_is_short_of_imports(dsh):
    done = dsh.run("plugin", "--help", program=("-X", "importtime", "-m", "dsh_cli"))
    assert done.code == 0
    assert done.stdout.startswith("usage: dsh plugin --profile NAME add SPEC...")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"dsh_cli._plugin_run", "importlib.metadata", "argparse"}


def test_a_module_that_the_installation_has_too_is_told_and_not_used(dsh, wheel):
    files = {
        "dsh_one/__init__.py": "def apply(ctx, config): pass\n",
        "dsh_one/cordis.patch.yml": "[]\n",
        "dsh_tools/__init__.py": "raise RuntimeError('the wrong one')\n",
        "json.py": "raise RuntimeError('the wrong one')\n",
    }
    said = dsh.done("add", wheel("dsh-one", files=files)).stderr
    assert "dsh-one brings a module 'dsh_tools' that the running installation has too" in said
    assert "'json'" in said
    assert dsh.run("headless", "--help").code == 0
    points = {"dsh.plugins": {"dsh-tool-bash": "dsh_two"}, "dsh.bundles": {"dsh-two": "dsh_two"}}
    said = dsh.done("add", wheel("dsh-two", points=points)).stderr
    assert "offers dsh.plugins 'dsh-tool-bash' as dsh-tool-bash does, whose is used" in said


def test_two_plugins_that_bring_the_same_file_are_told(dsh, wheel):
    points = {"dsh.plugins": {"x": "shared"}}
    one = wheel("dsh-one", points=points, files={"shared.py": "A = 1\n"})
    two = wheel("dsh-two", points={"dsh.plugins": {"y": "shared"}}, files={"shared.py": "B = 1\n"})
    assert "dsh-one and dsh-two both bring shared.py" in dsh.done("add", one, two).stderr
