"""Sites: interrupted, shared, lost, of another Python, in a home that cannot be written."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

KILLED = """
import os, signal, sys
left = [int(sys.argv.pop(1))]
def count(event, args):
    if event in ("os.rename", "os.symlink", "os.remove", "os.mkdir", "shutil.rmtree", "os.link"):
        if any("dsh-plugin" in str(arg) or "headless" in str(arg) for arg in args):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
from dsh_cli import main
sys.exit(main(sys.argv[1:]))
"""
"""Ends before the n-th change of a name in the profile."""


def killed(dsh, moment, *args):
    words = ("plugin", "--profile", "headless", *map(str, args))
    return dsh.run(str(moment), *words, program=("-c", KILLED))


def boots(dsh):
    """The rows of the plugins that boot."""
    dump = dsh.dump()
    return {name for name in ("dsh-one", "dsh-two") if f"name: {name}" in dump}


@pytest.mark.timeout(120)
def test_a_command_killed_at_any_step_leaves_the_old_plugins_or_the_new(dsh, wheel, tmp_path):
    one, two = wheel("dsh-one"), wheel("dsh-two")
    dsh.done("add", one)
    backup = tmp_path / "backup"
    shutil.copytree(dsh.profile, backup, symlinks=True)
    deaths = {}
    for name, args, after in (
        ("add", ("add", two), {"dsh-one", "dsh-two"}),
        ("remove", ("remove", "dsh-one"), set()),
    ):
        moment = 0
        while True:
            shutil.rmtree(dsh.profile)
            shutil.copytree(backup, dsh.profile, symlinks=True)
            done = killed(dsh, moment, *args)
            assert done.code in (0, -signal.SIGKILL), done.stderr
            assert boots(dsh) in ({"dsh-one"}, after)
            if done.code == 0:
                break
            if boots(dsh) != after:
                dsh.done(*args)  # nothing that the dead one left is in the way
            dsh.done("sync")
            assert not list(dsh.profile.glob("sites/.staged-*"))
            moment += 1
        deaths[name] = moment
    assert deaths["add"] >= 5
    assert deaths["remove"] >= 3


@pytest.fixture
def stuck(dsh, tmp_path) -> Iterator[Callable[[], int]]:
    """An installer that stops before it unpacks; the pid of it once it has."""
    mark, program = tmp_path / "mark", tmp_path / "bin/uv"
    os.mkfifo(mark)
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *--target*) echo $$ > {mark}; exec sleep 60;; esac\n'
        f'exec {shutil.which("uv")} "$@"\n'
    )
    program.chmod(0o755)
    pids: list[int] = []

    def wait() -> int:
        pids.append(int(mark.read_text()))
        return pids[-1]

    dsh.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    yield wait
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_command_killed_while_the_installer_works_changes_nothing(dsh, wheel, stuck, finished):
    dsh.run("headless", "--help")
    before, one = dsh.snapshot(), wheel("dsh-one")
    process = dsh.start("plugin", "--profile", "headless", "add", str(one))
    installer = stuck()
    process.kill()
    os.kill(installer, signal.SIGKILL)
    assert finished(process).code == -signal.SIGKILL
    assert dsh.snapshot() == before
    assert boots(dsh) == set()
    dsh.env["PATH"] = os.environ["PATH"]
    dsh.done("add", one)
    assert not list(dsh.profile.glob("sites/.staged-*"))
    assert boots(dsh) == {"dsh-one"}


def test_an_interrupt_ends_the_installer_and_cleans_up(dsh, wheel, stuck, finished):
    dsh.run("headless", "--help")
    before = dsh.snapshot()
    command = ("plugin", "--profile", "headless", "add", str(wheel("dsh-one")))
    process = dsh.start(*command, start_new_session=True)
    stuck()
    os.killpg(process.pid, signal.SIGINT)
    assert finished(process).code == 130
    assert dsh.snapshot() == before
    assert not (dsh.profile / "sites").exists()


def test_commands_on_one_profile_wait_for_each_other(dsh, wheel, finished):
    wheels = [wheel(f"dsh-p{number}") for number in range(3)]
    dsh.run("headless", "--help")
    started = [dsh.start("plugin", "--profile", "headless", "add", str(each)) for each in wheels]
    for process in started:
        assert finished(process).code == 0
    dump = dsh.dump()
    assert all(f"name: dsh-p{number}" in dump for number in range(3))
    assert dsh.done("list").stdout.count(" ok\n") == 3


def test_a_site_that_was_deleted_is_told_and_made_again_by_sync(dsh, wheel):
    dsh.done("add", wheel("dsh-one"))
    shutil.rmtree(dsh.profile / "sites")
    done = dsh.run("--profile", "headless", "--dump-config")
    assert "its plugins are not installed; run: dsh plugin --profile headless sync" in done.stderr
    listed = dsh.done("list").stdout
    assert "missing from the site" in listed
    assert "run: dsh plugin --profile headless sync" in listed
    assert dsh.done("sync").stdout == "+ dsh-one 1.0\n"
    assert boots(dsh) == {"dsh-one"}


def test_a_file_that_was_deleted_from_a_site_comes_back_by_sync(dsh, wheel):
    one = wheel("dsh-one")
    dsh.done("add", one)
    (dsh.site / "dsh_one/__init__.py").unlink()
    assert "needs sync" in dsh.done("list").stdout
    dsh.done("sync")
    assert (dsh.site / "dsh_one/__init__.py").is_file()
    assert " ok\n" in dsh.done("list").stdout


def test_a_manifest_that_was_edited_by_hand_is_told_and_followed_by_sync(dsh, wheel):
    dsh.done("add", wheel("dsh-one"))
    text = dsh.manifest.read_text("utf-8")
    two = wheel("dsh-two").as_uri()
    dsh.manifest.write_text(
        text.replace("dependencies = [", f'dependencies = ["dsh-two @ {two}", ')
    )
    done = dsh.run("--profile", "headless", "--dump-config")
    assert done.code == 0
    assert "not those of its pyproject.toml; run: dsh plugin" in done.stderr
    dsh.done("sync")
    assert boots(dsh) == {"dsh-one", "dsh-two"}


def test_a_site_of_another_python_is_told_ignored_and_replaced_by_sync(dsh, wheel):
    dsh.done("add", wheel("dsh-one"))
    sites = dsh.profile / "sites"
    old = (sites / os.readlink(dsh.site)).name
    other = f"{old.rpartition('-')[0]}-cp27"
    (sites / old).rename(sites / other)
    dsh.site.unlink()
    dsh.site.symlink_to(other)
    done = dsh.run("--profile", "headless", "--dump-config")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"installed for Python cp27 and this is {tag}; run: dsh plugin" in done.stderr
    assert "needs sync" in dsh.done("list").stdout
    dsh.done("sync")
    assert boots(dsh) == {"dsh-one"}
    assert os.readlink(dsh.site).endswith(f"-{tag}")


def test_what_was_installed_for_another_version_of_the_product_is_told(dsh, wheel):
    dsh.done("add", wheel("dsh-one"))
    record = dsh.site / "dsh-site.json"
    record.write_text(record.read_text().replace('"product": "', '"product": "0.0.'))
    done = dsh.run("--profile", "headless", "--dump-config")
    assert "its plugins were installed for dsh 0.0." in done.stderr
    dsh.done("sync")
    assert dsh.run("--profile", "headless", "--dump-config").stderr == ""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_a_home_that_cannot_be_written_boots_its_plugins_and_refuses_changes(dsh, wheel):
    one, two = wheel("dsh-one"), wheel("dsh-two")
    dsh.done("add", one)
    before = dsh.snapshot()
    home = str(dsh.home)
    dsh.prefix = ("bwrap", "--bind", "/", "/", "--dev", "/dev", "--ro-bind", home, home, "--")
    assert boots(dsh) == {"dsh-one"}
    assert "dsh-one" in dsh.done("list").stdout
    for args in (("add", two), ("remove", "dsh-one"), ("sync",)):
        done = dsh.plugin(*args)
        assert done.code == 1
        assert "cannot be written" in done.stderr
        assert done.stderr.count("\n") == 1
    dsh.prefix = ()
    assert dsh.snapshot() == before


def test_a_profile_without_plugins_has_no_site_and_reads_none(dsh):
    dsh.run("headless", "--help")
    assert not (dsh.profile / "sites").exists()
    assert dsh.done("sync").stderr == "dsh: the profile has no plugins\n"
    assert not (dsh.profile / "sites").exists()
