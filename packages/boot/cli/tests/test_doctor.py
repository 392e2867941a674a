"""`dsh doctor`, as a real process over homes that are well and homes that are not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from dsh_cli._doctor_report import received
from dsh_cli._doctor_waiting import waiting_for
from dsh_cordis import Finding

KEY = "sk-not-to-be-shown"
SHORT = {"DSH_ACTIVATION_TIMEOUT_MS": "500"}

CLINIC = """
import os
import subprocess
import time
from pathlib import Path

import asyncio
from dsh_cmdline import APP_EXIT, CMDLINE
from dsh_cordis import Finding, Service, ServiceKey
from dsh_launch_environment import LAUNCH_ENVIRONMENT

PORT, URL = ServiceKey("port_number"), ServiceKey("base_url")


class Account(Service):
    provides = ServiceKey("account")
    inject = (LAUNCH_ENVIRONMENT,)

    def diagnose(self):
        key = self.own[LAUNCH_ENVIRONMENT].get("TAPP_API_KEY")
        if key is None:
            yield Finding("error", "account", "no key", "set TAPP_API_KEY")
        else:
            yield Finding("ok", "account", f"the key is {key}")


class Startup(Service):
    provides = PORT
    inject = (APP_EXIT, CMDLINE)


class Address(Service):
    provides = URL
    inject = (PORT,)


def client(ctx, config):
    print("an application runs", flush=True)


client.inject = (URL,)


class Raises(Service):
    provides = ServiceKey("raises")

    def diagnose(self):
        yield Finding("ok", "raises", "as far as it came")
        raise RuntimeError(f"with {os.environ['TAPP_API_KEY']}")


class Exits(Service):
    provides = ServiceKey("exits")

    def diagnose(self):
        raise SystemExit(3)


class Hangs(Service):
    provides = ServiceKey("hangs")

    async def diagnose(self):
        await asyncio.Event().wait()
        yield


class Blocks(Service):
    provides = ServiceKey("blocks")

    def diagnose(self):
        time.sleep(600)


class Floods(Service):
    provides = ServiceKey("floods")

    def diagnose(self):
        while True:
            yield Finding("warning", "flood", "more")


class Babbles(Service):
    provides = ServiceKey("babbles")

    def diagnose(self):
        return ["no finding"]


class Invents(Service):
    provides = ServiceKey("invents")

    def diagnose(self):
        return [Finding("fatal", "a level", "that there is not")]


class Steers(Service):
    provides = ServiceKey("steers")

    def diagnose(self):
        return [Finding("ok", "terminal", "one\\ntwo\\x1b[2J \\udcff")]


async def never(ctx, config):
    child = subprocess.Popen(["sleep", "600"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}\\n")
    await asyncio.Event().wait()


def leaves(ctx, config):
    child = subprocess.Popen(["sleep", "600"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}\\n")


def dies(ctx, config):
    os._exit(3)
"""


class Clinic:
    """A profile `tapp` with rows of the module above, and the doctor looking at it."""

    def __init__(self, dsh: Any) -> None:
        self.dsh = dsh

    def rows(self, *plugins: str) -> None:
        """Install these as the bundle's rows."""
        listed = ", ".join(
            f"{{id: {name.lower()}, name: 'tapp.clinic:{name}'}}" for name in plugins
        )
        self.dsh.bundle(f"[{{insert: [{listed}]}}]")
        (self.dsh.site / "tapp" / "clinic.py").write_text(CLINIC)

    def patch(self, text: str) -> Path:
        """The user's profile, with this patch."""
        directory = self.dsh.home / "profiles" / "tapp"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "pyproject.toml").write_text(
            '[project]\nname = "mine"\nversion = "0"\ndependencies = []\n'
            '[tool.dsh.profile]\nbundles = ["tapp"]\n'
        )
        (directory / "cordis.patch.yml").write_text(text)
        return directory

    def examine(
        self, *flags: str, env: Mapping[str, str] | None = None, **rest: Any
    ) -> tuple[int, list[dict[str, str]]]:
        """Exit status and findings."""
        environment = {"TAPP_API_KEY": KEY, **(env or {})}
        flags = flags or ("--profile", "tapp")
        run = self.dsh.run("doctor", "--json", *flags, env=environment, **rest)
        assert KEY not in run.stdout + run.stderr
        assert run.stderr == ""
        return run.returncode, [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture
def clinic(dsh: Any) -> Clinic:
    return Clinic(dsh)


def errors(findings: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {one["subject"]: one for one in findings if one["level"] == "error"}


def below(directory: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in directory.rglob("*")}


def pids(directory: Path) -> list[int]:
    """The processes that a plugin told of, once it has."""
    deadline = time.monotonic() + 15
    file = directory / "pids"
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "the plugin was not started"
        time.sleep(0.02)
    return [int(word) for word in file.read_text().split()]


def gone(pid: int) -> bool:
    """Whether a process ends; one that only waits to be reaped did."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


def assert_gone(started: list[int]) -> None:
    """That these processes end; what does not is ended with the test."""
    left = [pid for pid in started if not gone(pid)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []


def test_a_healthy_home_has_no_error_and_stays_as_it_is(clinic: Clinic) -> None:
    clinic.rows("Account")
    directory = clinic.patch("- insert: [{id: mine, name: ./mine.py}]\n")
    (directory / "mine.py").write_text("import beside\ndef apply(ctx, config): pass\n")
    (directory / "beside.py").write_text("")
    before = below(clinic.dsh.home)
    code, found = clinic.examine(env={"PYTHONPATH": f"{clinic.dsh.site}:{directory}"})
    assert code == 0, found
    subjects = [one["subject"] for one in found]
    assert subjects == [
        "dsh",
        "uv",
        "home",
        "profile tapp",
        "profile tapp: start",
        "profile tapp: account",
    ]
    assert found[-1] == {
        "level": "ok",
        "subject": "profile tapp: account",
        "message": "the key is [TAPP_API_KEY]",
        "remedy": "",
    }
    assert all({*one} == {"level", "subject", "message", "remedy"} for one in found)
    assert below(clinic.dsh.home) == before


def test_what_a_service_lacks_is_an_error_with_its_remedy_on_one_line(clinic: Clinic) -> None:
    clinic.rows("Account")
    run = clinic.dsh.run("doctor", "--profile", "tapp")
    assert run.returncode == 1
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("error")]
    assert line == "error    profile tapp: account: no key; set TAPP_API_KEY"


def test_without_any_profile_the_installed_templates_are_tried_and_nothing_is_made(
    clinic: Clinic,
) -> None:
    clinic.rows("Account")
    code, found = clinic.examine("--json")
    assert "profile tapp: account" in [one["subject"] for one in found]
    assert code == (1 if errors(found) else 0)
    assert not clinic.dsh.home.exists()


def test_the_application_is_not_run_and_what_waits_for_it_is_no_fault(clinic: Clinic) -> None:
    clinic.rows("Startup", "Address", "client", "Account")
    code, found = clinic.examine()
    assert code == 0, found
    (start,) = [one for one in found if one["subject"] == "profile tapp: start"]
    assert start["message"] == "1 rows run"


def test_an_application_that_does_not_say_what_it_provides_makes_a_warning(clinic: Clinic) -> None:
    clinic.rows("client")
    patch = "[{insert: [{id: app, name: 'tapp.plugins:startup', inject: [cmdline_args]},"
    clinic.dsh.bundle(f"{patch} {{id: client, name: 'tapp.clinic:client'}}]}}]")
    code, found = clinic.examine()
    assert code == 0, found
    (warning,) = [one for one in found if one["subject"].startswith("profile tapp: row client")]
    assert warning["level"] == "warning"
    assert "base_url" in warning["message"]


def test_waiting_is_followed_through_what_waiting_rows_provide() -> None:
    missing = {"a": ["app"], "b": ["x"], "c": ["y", "app"], "d": ["z"], "e": ["y", "z"]}
    provides: dict[str, str | None] = {"a": "x", "b": "y", "c": None, "d": "z", "e": None}
    assert waiting_for(["app"], missing, provides) == ({"a", "b", "c"}, False)
    assert waiting_for(["app"], {"a": ["app"]}, {"a": None}) == ({"a"}, True)
    mixed = waiting_for(["app"], {"a": ["app"], "b": ["app", "z"]}, {"a": None, "b": None})
    assert mixed == ({"a", "b"}, True)
    assert waiting_for(["app"], {"d": ["z"]}, {"d": None}) == (frozenset(), False)


def test_services_that_cannot_look_at_themselves_silence_no_other(clinic: Clinic) -> None:
    sick = ("Raises", "Exits", "Hangs", "Blocks", "Floods", "Babbles", "Invents")
    clinic.rows(*sick, "Steers", "Account")
    code, found = clinic.examine(env=SHORT)
    assert code == 1
    failed = errors(found)
    assert {*failed} == {f"profile tapp: service {name.lower()}" for name in sick}
    said = {name.rpartition(" ")[2]: one["message"] for name, one in failed.items()}
    assert "RuntimeError('with [TAPP_API_KEY]')" in said["raises"]
    assert "SystemExit(3)" in said["exits"]
    assert said["hangs"] == said["blocks"] == "its look at itself did not end within 0.5 s"
    assert "more than 100 things" in said["floods"]
    subjects = [one["subject"] for one in found]
    assert subjects.count("profile tapp: flood") == 100
    assert "profile tapp: raises" in subjects
    assert "profile tapp: account" in subjects


def test_nothing_that_a_plugin_says_steers_the_terminal(clinic: Clinic) -> None:
    clinic.rows("Steers")
    run = clinic.dsh.run("doctor", "--profile", "tapp")
    assert run.returncode == 0
    assert run.stdout.splitlines()[-1] == (
        "ok       profile tapp: terminal: one; two\\x1b[2J \\udcff"
    )


def test_each_fault_of_the_users_rows_is_told_with_its_remedy(clinic: Clinic) -> None:
    clinic.rows("Account")
    directory = clinic.patch(
        "- insert:\n    - {id: typo, name: tapp.plugins:stasy}\n    - {id: bad, name: ./bad.py}\n"
        "    - {id: slow, name: ./slow.py}\n- {id: nobody, disabled: true}\n"
    )
    (directory / "bad.py").write_text("raise ValueError('on purpose')\n")
    (directory / "slow.py").write_text(
        "import asyncio\nasync def apply(ctx, config): await asyncio.Event().wait()\n"
    )
    (clinic.dsh.home / "cordis.patch.yml").write_text("- insert:\n\t- {id: a}\n")
    code, found = clinic.examine(env=SHORT)
    assert code == 1
    failed = errors(found)
    rows = {
        "typo": ("tapp.plugins:stasy", "stasy"),
        "bad": (f"{directory}/bad.py", "ValueError: on purpose"),
        "slow": (f"{directory}/slow.py", "500 ms"),
    }
    for row, (name, reason) in rows.items():
        one = failed.pop(f"profile tapp: row {row} ({name})")
        assert reason in one["message"]
        assert f"dsh plugin --profile tapp remove {row}" in one["remedy"]
    (broken,) = failed.values()
    assert str(clinic.dsh.home / "cordis.patch.yml") in broken["message"]
    assert "correct it" in broken["remedy"]
    (skipped,) = [one for one in found if "nobody" in one["message"]]
    assert (skipped["level"], bool(skipped["remedy"])) == ("warning", True)
    assert found[-1]["subject"] == "profile tapp: account"


def test_a_plugin_that_ends_the_process_is_named(clinic: Clinic) -> None:
    clinic.rows("Account")
    clinic.patch("- insert: [{id: dies, name: 'tapp.clinic:dies'}]\n")
    code, found = clinic.examine(env=SHORT)
    assert code == 1
    (error,) = errors(found).values()
    assert "'dies'" in error["message"]
    assert "dsh plugin --profile tapp remove dies" in error["remedy"]


def test_a_removed_site_is_told_with_the_command_that_brings_it_back(clinic: Clinic) -> None:
    clinic.rows("Account")
    directory = clinic.patch("[]\n")
    manifest = directory / "pyproject.toml"
    wanted = manifest.read_text().replace("dependencies = []", 'dependencies = ["gone==1"]')
    manifest.write_text(wanted.replace('["tapp"]', '["tapp", "gone"]'))
    (directory / "sites").mkdir()
    (directory / "sites" / "current").symlink_to("0123-cp311")
    code, found = clinic.examine()
    assert code == 1
    told = [one for one in found if one["level"] == "error"]
    assert all("dsh plugin --profile tapp sync" in one["remedy"] for one in told)
    assert len(told) == 2
    assert found[-1]["subject"] == "profile tapp: account"


@pytest.mark.parametrize(
    "manifest", ["[tool.dsh.profile", "[tool.dsh.profile]\nbundles = ['nosuch']\n"]
)
def test_a_broken_profile_is_told_beside_others_that_are_well(
    clinic: Clinic, manifest: str
) -> None:
    clinic.rows("Account")
    clinic.patch("[]\n")
    broken = clinic.dsh.home / "profiles" / "broken"
    broken.mkdir()
    (broken / "pyproject.toml").write_text(manifest)
    code, found = clinic.examine("--json")
    assert code == 1
    assert [*errors(found)] == ["profile broken"]
    assert errors(found)["profile broken"]["remedy"]
    assert "profile tapp: account" in [one["subject"] for one in found]


def test_a_home_that_is_no_directory_ends_in_findings(clinic: Clinic) -> None:
    clinic.rows("Account")
    clinic.dsh.home.write_text("a file")
    code, found = clinic.examine()
    assert code == 1
    assert str(clinic.dsh.home) in errors(found)["home"]["message"]
    assert "DSH_HOME" in errors(found)["home"]["remedy"]


def test_a_read_only_home_is_told_and_looked_at(clinic: Clinic) -> None:
    clinic.rows("Account")
    clinic.patch("[]\n")
    home = str(clinic.dsh.home)
    prefix = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", home, home)
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no bubblewrap here")
    code, found = clinic.examine(prefix=prefix)
    assert code == 1
    assert [*errors(found)] == ["home"]
    assert "read-only" in errors(found)["home"]["message"]
    assert found[-1]["subject"] == "profile tapp: account"


def test_a_profile_that_is_not_there_is_an_error(clinic: Clinic) -> None:
    clinic.rows("Account")
    code, found = clinic.examine("--profile", "tap")
    assert code == 1
    assert "did you mean tapp?" in errors(found)["profile tap"]["message"]


def test_what_a_plugin_started_ends_with_the_look(clinic: Clinic) -> None:
    clinic.rows("leaves")
    assert clinic.examine()[0] == 0
    assert_gone(pids(clinic.dsh.cwd))


def test_nothing_is_left_of_a_look_that_is_killed(clinic: Clinic) -> None:
    clinic.rows("never")
    doctor = clinic.dsh.start("doctor", "--profile", "tapp")
    started = pids(clinic.dsh.cwd)
    doctor.send_signal(signal.SIGKILL)
    doctor.wait()
    assert_gone(started)


def test_modules_of_the_working_directory_take_no_part(clinic: Clinic) -> None:
    clinic.rows("Account")
    (clinic.dsh.cwd / "msgspec.py").write_text("raise ValueError('not this one')\n")
    run = subprocess.run(
        [sys.executable, "-P", "-m", "dsh_cli", "doctor", "--profile", "tapp"],
        cwd=clinic.dsh.cwd,
        env={**clinic.dsh.environment, "TAPP_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=18,
        check=False,
    )
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("sink", [">/dev/full", ">&-"])
def test_findings_that_cannot_be_written_are_one_error(clinic: Clinic, sink: str) -> None:
    if sink == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("no full device here")
    clinic.rows("Account")
    run = clinic.dsh.run("doctor", prefix=("sh", "-c", f'exec "$@" {sink}', "sh"))
    assert run.returncode == 1
    assert run.stderr.startswith("dsh: standard output ")
    assert run.stderr.count("\n") == 1


def test_half_a_finding_of_a_killed_process_is_no_finding() -> None:
    whole = b'{"level":"ok","subject":"a","message":"b"}\n'
    assert [*received(whole + b'{"level":"error","subj')] == [Finding("ok", "a", "b")]
