"""`dsh doctor`: looks at everything that a start needs and says what to do. It changes nothing."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dsh_app_boot import (
    BootError,
    Profile,
    activation_timeout_ms,
    check_home_writable,
    compose,
    join_site,
    open_profile,
    site_problem,
    sync_command,
)
from dsh_cordis import CordisError, Finding
from dsh_cordis_loader import EntryPoints, scan_entry_points
from dsh_home_paths import resolve_dsh_home

if TYPE_CHECKING:
    from dsh_launch_environment import LaunchEnvironment

BOOT_BOUND_S: Final = 15.0
"""How long a trial start may take beyond the time that one row may."""


def main(argv: Sequence[str], environment: LaunchEnvironment) -> int:  # noqa: ARG001 - what every command gets
    """Run `dsh doctor` with these arguments; 1 if an error was found."""
    parser = argparse.ArgumentParser(
        prog="dsh doctor",
        description="Check the installation, the home and the profiles, and say what to do.",
        allow_abbrev=False,
    )
    parser.add_argument("--profile", metavar="NAME", help="only this profile")
    parser.add_argument("--json", action="store_true", help="one object a line")
    try:
        options = parser.parse_args(argv)
    except SystemExit as end:  # help, or misuse
        return 1 if end.code else 0
    errors = False
    for finding in examine(options.profile):
        errors = errors or finding.level == "error"
        _print(finding, as_json=options.json)
    return 1 if errors else 0


def examine(only: str | None) -> Iterator[Finding]:
    """Everything that is worth a line, as it is found."""
    entry_points = scan_entry_points()
    version = entry_points.distributions.get("dsh-cli", "(unknown)")
    yield Finding("ok", "dsh", f"version {version} on Python {sys.version.split()[0]}")
    yield _installer()
    try:
        home = resolve_dsh_home()
    except RuntimeError:
        yield Finding("error", "home", "no home directory is known", "set DSH_HOME to a directory")
        return
    yield _home(home)
    names = [only] if only is not None else _profiles(home, entry_points)
    if not names:
        yield Finding(
            "error", "profiles", "there is none, and no template", "install dsh-profile-headless"
        )
    for name in names:
        yield from _profile(name, home, entry_points)


def _installer() -> Finding:
    if shutil.which("uv") is not None:
        return Finding("ok", "uv", "is on the path")
    return Finding(
        "warning", "uv", "is not on the path; `dsh plugin` needs it", "install dsh-cli[plugins]"
    )


def _home(home: Path) -> Finding:
    try:
        check_home_writable(home)
    except BootError as error:
        return Finding("error", "home", str(error))
    return Finding("ok", "home", f"{home} can be written")


def _profiles(home: Path, entry_points: EntryPoints) -> list[str]:
    try:
        used = sorted(path.name for path in (home / "profiles").iterdir() if path.is_dir())
    except OSError:
        used = []
    visible = [name for name in used if not name.startswith(".")]
    return visible or list(entry_points["dsh.profiles"])


def _profile(name: str, home: Path, entry_points: EntryPoints) -> Iterator[Finding]:
    subject = f"profile {name}"
    try:
        profile = open_profile(name, home=home, entry_points=entry_points, create=False)
    except CordisError as error:
        yield Finding("error", subject, str(error))
        return
    yield Finding("ok", subject, f"starts {', '.join(profile.bundles)} ({profile.directory})")
    problem = site_problem(profile, entry_points.distributions.get("dsh-app-boot", ""))
    if problem is not None:
        yield Finding("error", subject, problem, f"run: {sync_command(profile)}")
    try:
        composition = compose(
            profile, home=home, entry_points=join_site(profile, entry_points), tolerant=True
        )
    except CordisError as error:
        yield Finding("error", subject, str(error))
        return
    for left_out in composition.problems:
        yield Finding("error", subject, f"{left_out.layer}: {left_out.message}", left_out.remedy)
    for layer, message in composition.skipped:
        yield Finding("warning", subject, f"{layer}: {message}", "correct its id, or take it out")
    yield from _trial(profile)


def _trial(profile: Profile) -> Iterator[Finding]:
    """Start the profile without its application, in a process that cannot hold this one up."""
    subject = f"profile {profile.name}"
    bound_s = BOOT_BOUND_S + 2 * activation_timeout_ms(os.environ) / 1000
    process = subprocess.Popen(
        [sys.executable, "-m", "dsh_cli._doctor_trial", profile.name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what plugins print is no finding
        start_new_session=True,
    )
    late = False
    try:
        output, _ = process.communicate(timeout=bound_s)
    except subprocess.TimeoutExpired:
        late = True
        output = b""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    found = [msgspec.json.decode(line, type=Finding) for line in output.splitlines()]
    for finding in found:
        yield msgspec.structs.replace(finding, subject=f"{subject}: {finding.subject}")
    if late or process.returncode:
        how = f"did not end within {bound_s:g} s" if late else f"ended with {process.returncode}"
        yield Finding(
            "error",
            subject,
            f"a trial start {how}",
            f"see what it says with: dsh {profile.name}; start without your own rows with:"
            f" dsh {profile.name} --safe",
        )


def _print(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        fields: dict[str, Any] = msgspec.to_builtins(finding)
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    else:
        # One line each: some messages hold several.
        message = "; ".join(filter(None, (line.strip() for line in finding.message.splitlines())))
        remedy = f"\n{'':10}{finding.remedy}" if finding.remedy else ""
        sys.stdout.write(f"{finding.level:<8}  {finding.subject}: {message}{remedy}\n")
    sys.stdout.flush()
