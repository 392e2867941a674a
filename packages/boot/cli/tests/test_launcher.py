from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Launcher


def test_an_application_starts_on_an_empty_home(dsh: Launcher):
    dsh.row("report", ", config: {who: !expr \"env.get('WHO', 'nobody')\"}")
    result = dsh.run("tapp", "a", "--patch", "b", env={"WHO": "me"})
    assert result.returncode == 0
    assert result.stdout == "config {'who': 'me'}\nargs ['a', '--patch', 'b']\nunloaded\n"
    assert result.stderr == ""
    assert (dsh.home / "profiles" / "tapp" / "pyproject.toml").is_file()


def test_the_first_exit_code_wins(dsh: Launcher):
    dsh.row("report", ", config: {code: 3}")
    assert dsh.run("tapp").returncode == 3


def test_command_line_values_reach_expressions_over_the_configured_default(dsh: Launcher):
    dsh.bundle("""
        - insert:
            - {id: startup, name: "tapp.plugins:startup"}
            - id: app
              name: "tapp.plugins:report"
              inject: [port_number]
              config: {port: !expr "coalesce(ctx.port_number.port, 3080)"}
    """)
    assert "config {'port': 8080}" in dsh.run("tapp", "--port", "8080").stdout
    assert "config {'port': 3080}" in dsh.run("tapp").stdout
    bad = dsh.run("tapp", "--port", "abc")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "invalid int value" in bad.stderr
    assert "did not activate" not in bad.stderr
    shown = dsh.run("--profile", "tapp", "--help")
    assert shown.returncode == 0
    assert shown.stdout.startswith("usage: app ")


def test_layers_apply_in_order_and_a_dump_shows_them_without_importing(
    dsh: Launcher, tmp_path: Path
):
    dsh.row("report", ", config: {v: bundle}")
    dsh.run("tapp")
    (dsh.site / "tapp" / "plugins.py").write_text("raise RuntimeError('imported')\n")
    (dsh.home / "profiles/tapp/cordis.patch.yml").write_text("[{id: app, config: {v: profile}}]")
    (dsh.home / "cordis.patch.yml").write_text("[{id: app, config: {v: home}}]")
    (dsh.cwd / "over.yml").write_text("[{id: app, config: {v: over}}, {id: x, disabled: true}]")
    dump = dsh.run("tapp", "--dump-config")
    assert dump.returncode == 0
    assert "v: home" in dump.stdout
    assert dump.stdout.startswith(
        f"# == tapp, patched by {dsh.home}/profiles/tapp/cordis.patch.yml,"
        f" {dsh.home}/cordis.patch.yml\n"
    )
    over = dsh.run("--dump-config", "--patch", "over.yml", "tapp")
    assert "v: over" in over.stdout
    assert over.stderr == f'dsh: [{dsh.cwd}/over.yml] patch: entry "x" not found\n'
    (dsh.home / "cordis.patch.yml").write_text("broken: '")
    assert "v: bundle" in dsh.run("tapp", "--dump-default-config").stdout


def test_a_dump_of_a_profile_never_used_writes_nothing(dsh: Launcher):
    dsh.row("report")
    assert dsh.run("tapp", "--dump-config").stdout.startswith("# == tapp\n- id: app\n")
    assert not dsh.home.exists()


def test_a_dump_loads_back_as_a_patch_of_an_empty_profile(dsh: Launcher):
    dsh.row("report", ", config: {list: [1, !expr cwd]}")
    dump = dsh.run("tapp", "--dump-config").stdout
    (dsh.site / "tapp" / "cordis.patch.yml").write_text("[]")
    indented = "".join(f"    {line}\n" for line in dump.splitlines())
    (dsh.cwd / "again.yml").write_text(f"- insert:\n{indented}")
    result = dsh.run("tapp", "--patch", "again.yml")
    assert f"config {{'list': [1, '{dsh.cwd}']}}" in result.stdout


def test_help_lists_profiles_and_commands_without_importing_them(dsh: Launcher):
    dsh.row("report")
    (dsh.site / "tapp" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    for words in (["--help"], ["-h"], ["help"]):
        result = dsh.run(*words)
        assert result.returncode == 0
        assert re.search(r"^  tapp +from tapp$", result.stdout, re.MULTILINE)
        assert re.search(r"\btool +from tapp\b", result.stdout)
    assert not dsh.home.exists()


def test_version_reads_no_environment_file(dsh: Launcher):
    (dsh.cwd / ".env").write_text("DSH_X=1\n")
    result = dsh.run("-V")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("dsh ")


def test_a_command_of_a_distribution_gets_its_arguments_and_environment(dsh: Launcher):
    dsh.row("report")
    result = dsh.run("tool", "--profile", "x", env={"MARK": "m"})
    assert result.returncode == 7
    assert result.stdout == "command ['--profile', 'x'] m\n"


def test_misuse_ends_with_one_and_says_why(dsh: Launcher):
    dsh.row("report")
    for words, reason in (
        ([], "--profile <name> is required"),
        (["session", "list"], "the command 'session' is not part of this installation"),
        (["--profile", "doctor"], 'invalid profile name "doctor"'),
        (["--profile", ".."], 'invalid profile name ".."'),
        (["nope"], 'profile "nope" does not exist; there are'),
        (["tap"], 'profile "tap" does not exist (did you mean tapp?); there are'),
        (["docter"], "(did you mean the command doctor?)"),
        (["--saef", "tapp"], "unknown option '--saef' (did you mean --safe?)"),
        (["tapp", "--patch", "none.yml"], "failed to read patches"),
        (["new", "--from-default-profile", "nope"], "no profile template 'nope'"),
    ):
        result = dsh.run(*words)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("dsh: ")
        assert reason in result.stderr
        assert "Traceback" not in result.stderr


def test_a_profile_is_made_from_a_template_once(dsh: Launcher):
    dsh.row("report")
    assert dsh.run("mine", "--from-default-profile", "tapp").returncode == 0
    assert dsh.run("mine").returncode == 0
    again = dsh.run("mine", "--from-default-profile", "tapp")
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_a_waiting_row_ends_the_boot_with_its_service_and_a_hint(dsh: Launcher):
    dsh.bundle("""
        - insert:
            - {id: app, name: "tapp.plugins:stays"}
            - {id: w, name: "tapp.plugins:waits"}
    """)
    info = dsh.site / "other-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[dsh.bundles]\nother = other\n")
    result = dsh.run("tapp")
    assert result.returncode == 1
    assert "w (tapp.plugins:waits): pending (waiting for service: never_provided)" in result.stderr
    assert (
        "the profile 'tapp' starts the bundles tapp; installed but not listed in" in result.stderr
    )
    assert "other" in result.stderr
    assert result.stdout == "ready\nunloaded\n"


def test_a_failing_row_is_reported_once(dsh: Launcher):
    dsh.row("broken")
    result = dsh.run("tapp")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("dsh: plugin tree failed to load: failed to apply loader entry")
    assert result.stderr.count("Traceback") == 1


def test_a_misspelt_plugin_is_named(dsh: Launcher):
    dsh.bundle("[{insert: [{id: app, name: dsh-tolls}]}]")
    result = dsh.run("tapp")
    assert result.returncode == 1
    assert "failed to import loader entry app (dsh-tolls): no plugin 'dsh-tolls'" in result.stderr
    assert "Traceback" not in result.stderr


def test_warnings_of_plugins_go_to_stderr(dsh: Launcher):
    dsh.row("warns")
    result = dsh.run("tapp")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "dsh: warning: look out\n"


def test_an_environment_file_may_not_set_what_decides_the_launch(dsh: Launcher):
    dsh.row("report")
    for name in ("https_proxy", "DSH_PERMISSION_MODE"):
        (dsh.cwd / ".env").write_text(f"{name}=x\n")
        result = dsh.run("tapp")
        assert (result.returncode, result.stdout) == (1, "")
        assert f'sets "{name}"' in result.stderr
        assert result.stderr.count("dsh: ") == 1
        assert not dsh.home.exists()


def test_an_environment_file_reaches_expressions(dsh: Launcher):
    dsh.row("report", ", config: {who: !expr env.WHO}")
    (dsh.cwd / ".env").write_text("WHO=file\n")
    assert "{'who': 'file'}" in dsh.run("tapp").stdout
    assert "{'who': 'shell'}" in dsh.run("tapp", env={"WHO": "shell"}).stdout


def test_a_half_made_profile_is_explained(dsh: Launcher):
    dsh.row("report")
    directory = dsh.home / "profiles" / "half"
    directory.mkdir(parents=True)
    result = dsh.run("half")
    assert result.returncode == 1
    assert "it has no pyproject.toml" in result.stderr
    (directory / "pyproject.toml").write_text("[tool.dsh.profile]\nbundles = ['tap']\n")
    result = dsh.run("half")
    assert result.returncode == 1
    assert "bundle 'tap' is not installed (did you mean tapp?); installed are " in result.stderr


@pytest.mark.parametrize("place", ["cordis.patch.yml", "profiles/tapp/cordis.patch.yml"])
@pytest.mark.parametrize(
    "content", [b"a: 1\n", b"", b"- a: 'x\n", b"\xff\n", b"- {id: a, isolate: [x]}\n"]
)
def test_a_bad_configuration_file_is_named_and_left_out_or_refused(
    dsh: Launcher, place: str, content: bytes
):
    dsh.row("report")
    dsh.run("tapp")
    file = dsh.home / place
    file.write_bytes(content)
    result = dsh.run("tapp")
    assert (result.returncode, result.stdout) == (0, "config None\nargs []\nunloaded\n")
    assert result.stderr.startswith(f"dsh: {file} is left out: ")
    strict = dsh.run("tapp", "--strict")
    assert (strict.returncode, strict.stdout) == (1, "")
    for text in (result.stderr, strict.stderr):
        assert text.startswith("dsh: ")
        assert str(file) in text
        assert "Traceback" not in text
    safe = dsh.run("tapp", "--safe")
    assert (safe.returncode, safe.stderr) == (0, "")


def test_a_home_that_is_a_file_is_one_clear_error(dsh: Launcher):
    dsh.row("report")
    dsh.home.write_text("")
    result = dsh.run("tapp")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "cannot be written" in result.stderr
    assert "set DSH_HOME to a directory that is" in result.stderr


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap to bind read-only")
@pytest.mark.parametrize("used_before", [False, True])
def test_a_read_only_home_is_one_clear_error(dsh: Launcher, *, used_before: bool):
    dsh.row("report")
    dsh.home.mkdir()
    if used_before:
        dsh.run("tapp")
    bind = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(dsh.home), str(dsh.home))
    result = dsh.run("tapp", prefix=bind)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert f"the harness home {dsh.home} cannot be written" in result.stderr
    assert dsh.run("tapp", "--dump-config", prefix=bind).returncode == 0


def test_a_working_directory_that_was_removed_is_named(dsh: Launcher):
    dsh.row("report")
    inner = dsh.cwd / "gone"
    inner.mkdir()
    script = 'cd gone && rmdir ../gone && exec "$@"'
    result = dsh.run("tapp", prefix=("sh", "-c", script, "sh"))
    assert result.returncode == 1
    assert "the working directory was removed" in result.stderr


def test_a_dump_is_utf8_whatever_the_locale_says(dsh: Launcher):
    dsh.row("report", ", config: {text: 'grün'}")
    result = dsh.run("tapp", "--dump-config", env={"PYTHONIOENCODING": "ascii"})
    assert (result.returncode, result.stderr) == (0, "")
    assert "text: grün" in result.stdout


def test_an_environment_file_that_cannot_be_read_is_told_in_one_line(dsh: Launcher):
    dsh.row("report")
    (dsh.cwd / ".env").write_bytes(b"A=\xff\n")
    result = dsh.run("tapp")
    assert result.returncode == 0
    assert result.stderr.startswith("dsh: warning: failed to load .env: ")
    assert result.stderr.count("\n") == 1


def test_a_dump_imports_nothing_that_it_does_not_need(dsh: Launcher):
    dsh.row("report")
    command = [sys.executable, "-X", "importtime", *dsh.command("tapp", "--dump-config")[1:]]
    result = subprocess.run(
        command, cwd=dsh.cwd, env=dsh.environment, capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "yaml" in imported
    heavy = {"anyio", "argparse", "difflib", "httpx", "importlib.metadata", "pydantic", "tempfile"}
    assert imported & {*heavy, "tapp", "tapp.plugins"} == set()


def test_a_reader_that_stops_early_causes_no_complaint(dsh: Launcher):
    dsh.row("report", ", config: {long: '" + "x" * 200_000 + "'}")
    process = dsh.start("tapp", "--dump-config")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_the_launcher_never_waits_for_stdin(dsh: Launcher):
    dsh.row("report")
    reader, writer = os.pipe()
    try:
        process = dsh.start("tapp", stdin=reader)
        output, errors = process.communicate(timeout=18)
    finally:
        os.close(reader)
        os.close(writer)
    assert (process.returncode, errors) == (0, "")
    assert "unloaded" in output
    closed = dsh.run("tapp", prefix=("sh", "-c", 'exec "$@" <&-', "sh"))
    assert (closed.returncode, closed.stderr) == (0, "")


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


@pytest.mark.parametrize(
    ("plugin", "number", "code"),
    [
        ("stays", signal.SIGTERM, 0),
        ("stays", signal.SIGINT, 130),
        ("one_shot", signal.SIGTERM, 143),
        ("one_shot", signal.SIGINT, 130),
        ("stays", signal.SIGHUP, 129),
    ],
)
def test_a_signal_unloads_everything_and_decides_the_code(
    dsh: Launcher, plugin: str, number: signal.Signals, code: int
):
    dsh.row(plugin)
    process = dsh.start("tapp")
    wait_for(process, "ready")
    process.send_signal(number)
    output, errors = process.communicate(timeout=18)
    assert process.returncode == code
    assert errors == ""
    assert output == ("unloaded\n" if plugin == "stays" else "")


def test_a_profile_without_an_application_says_that_it_only_runs(dsh: Launcher):
    dsh.row("serves")
    process = dsh.start("tapp")
    wait_for(process, "ready")
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=18)
    assert line == ("dsh: no row of this profile is an application: it runs until it is stopped\n")
    with_arguments = dsh.run("tapp", "x")
    assert with_arguments.returncode == 1
    assert with_arguments.stderr == "dsh: no row of this profile takes arguments, got 'x'\n"


def test_a_misspelt_option_of_the_application_is_told_with_the_nearest(dsh: Launcher):
    dsh.row("startup")
    assert (
        "unrecognized arguments: --prot (did you mean --port?)" in dsh.run("tapp", "--prot").stderr
    )
    misspelt = dsh.run("tapp", "--stric").stderr
    assert "(did you mean --strict, before the application's arguments?)" in misspelt
    late = dsh.run("tapp", "--port", "1", "--safe").stderr
    assert "--safe goes before the application's arguments" in late


def test_a_signal_during_the_boot_unloads_what_was_started(dsh: Launcher):
    dsh.row("slow_start")
    process = dsh.start("tapp")
    wait_for(process, "ready")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=18)
    assert (process.returncode, errors) == (0, "")
    assert output == "started\nunloaded\n"


def test_a_second_signal_ends_a_stuck_shutdown_at_once(dsh: Launcher):
    dsh.row("stuck")
    process = dsh.start("tapp")
    wait_for(process, "ready")
    process.send_signal(signal.SIGTERM)
    wait_for(process, "stuck")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=4)
    assert process.returncode == 130
    assert (dsh.cwd / "hook").read_text() == "ran"


def test_a_stuck_shutdown_ends_by_itself(dsh: Launcher):
    dsh.row("stuck")
    process = dsh.start("tapp")
    wait_for(process, "ready")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=18)
    assert process.returncode == 130


def test_a_row_that_disposes_the_whole_tree_ends_the_process(dsh: Launcher):
    dsh.row("quits")
    result = dsh.run("tapp")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "quits\nunloaded\n"


def test_a_failure_nobody_owns_ends_the_process_with_one_diagnostic(dsh: Launcher):
    dsh.row("fails_later")
    result = dsh.run("tapp")
    assert result.returncode == 1
    assert result.stdout == "unloaded\n"
    assert result.stderr.startswith("dsh: fatal load failure: Traceback")
    assert "RuntimeError: first" in result.stderr
    assert "second" not in result.stderr
