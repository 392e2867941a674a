"""`dsh doctor`: looks at everything that a start needs and says what to do. It changes nothing."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from dsh_app_boot import (
    ACTIVATION_TIMEOUT_MS,
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
from dsh_cmdline import parse_arguments
from dsh_cordis import CordisError, Finding
from dsh_cordis_loader import EntryPoints, scan_entry_points, walk_rows
from dsh_home_paths import resolve_dsh_home

from ._doctor_report import received, write

if TYPE_CHECKING:
    from dsh_app_boot import Composition
    from dsh_launch_environment import LaunchEnvironment

BOOT_BOUND_S: Final = 30.0
"""How long a trial start, and all services together, may take beyond the time of one row."""


STEP: Final = "step"
"""The subject of what is no finding: the row that is started next."""

STEP_BY_STEP: Final = "--step-by-step"


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
        options = parse_arguments(argv, parser)
    except SystemExit as end:  # help, or misuse
        return 1 if end.code else 0
    errors = False
    for finding in examine(options.profile):
        errors = errors or finding.level == "error"
        if not write(finding, as_json=options.json):
            return 1
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
    yield from _home(home)
    names = [only] if only is not None else _profiles(home, entry_points)
    if not names:
        yield Finding(
            "error", "profiles", "there is none, and no template", "install dsh-profile-headless"
        )
    for name in names:
        path = sys.path[:]
        yield from _profile(name, home, entry_points)
        sys.path[:] = path  # the plugins of one profile are none of the next


def _installer() -> Finding:
    if shutil.which("uv") is not None:
        return Finding("ok", "uv", "is on the path")
    if importlib.util.find_spec("uv") is not None:
        return Finding("ok", "uv", "is part of the installation")
    mend = "install it, or: pip install 'dsh-cli[plugins]'"
    return Finding("warning", "uv", "was not found; only `dsh plugin` needs it", mend)


def _error(subject: str, error: CordisError) -> Finding:
    """What an error says; its first part tells what is wrong, the rest what to do."""
    message, _, remedy = str(error).partition("; ")
    return Finding("error", subject, message, remedy)


def _home(home: Path) -> Iterator[Finding]:
    try:
        check_home_writable(home)
    except BootError as error:
        yield _error("home", error)
    else:
        what = "can be written" if home.exists() else "is not there yet and can be made"
        yield Finding("ok", "home", f"{home} {what}")
    try:
        activation_timeout_ms(os.environ)
    except BootError as error:
        yield _error("environment", error)


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
        yield _error(subject, error)
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
        yield _error(subject, error)
        return
    for left_out in composition.problems:
        yield Finding("error", subject, f"{left_out.layer}: {left_out.message}", left_out.remedy)
    for skipped in composition.skipped:
        yield Finding("warning", subject, f"{skipped.layer}: {skipped.message}", skipped.remedy)
    yield from _switched_off(subject, composition)
    yield from _try_out(profile, composition)


def _switched_off(subject: str, composition: Composition) -> Iterator[Finding]:
    """Rows of the installation that a layer of the user's turns off, which may well be meant."""
    trusted = {row.id: row for row in walk_rows(composition.trusted_rows())}
    for row in walk_rows(composition.rows):
        own = trusted.get(row.id)
        layer = composition.layers.get(row.patched_by[-1]) if row.patched_by else None
        if own is None or layer is None or layer.trusted or row.origin != own.origin:
            continue
        if row.disabled is True and own.disabled is not True:
            message = f"row {row.id} ({row.name}) is switched off by {layer.name}"
            yield Finding("ok", subject, message, layer.remedy(row.id, what="that"))


class _Trial(msgspec.Struct, frozen=True):
    """What a trial start came to."""

    findings: list[Finding]
    problem: str = ""
    """How it ended, unless it did as it should."""


def _try_out(profile: Profile, composition: Composition) -> Iterator[Finding]:
    """Start the profile without its application, in a process that cannot hold this one up."""
    subject = f"profile {profile.name}"
    trial = _trial(profile)
    if trial.problem:
        # Something ended the process without a word: once more, one row of the user's at a time.
        steps = [
            one.message for one in _trial(profile, STEP_BY_STEP).findings if one.subject == STEP
        ]
        row = next((row for row in composition.rows if steps and row.id == steps[-1]), None)
        layer = None if row is None else composition.layers.get(row.origin)
        at = "" if row is None else f" as row {row.id!r} ({row.name}) was started"
        mend = f"start without your own rows with: dsh {profile.name} --safe"
        if row is not None and layer is not None and layer.remove:
            mend = f"{layer.remedy(row.id)}; {mend}"
        yield Finding("error", subject, f"a trial start {trial.problem}{at}", mend)
    for finding in trial.findings:
        yield msgspec.structs.replace(finding, subject=f"{subject}: {finding.subject}")


def _trial(profile: Profile, *flags: str) -> _Trial:
    bound_s = BOOT_BOUND_S + timeout_ms() / 1000
    process = subprocess.Popen(
        # -P: no module of the working directory counts, as for dsh itself. -B: nothing is written.
        [sys.executable, "-P", "-B", "-m", "dsh_cli._doctor_trial", profile.name, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what plugins print is no finding
        start_new_session=True,
    )
    problem = ""
    try:
        output, _ = process.communicate(timeout=bound_s)
        if process.returncode:
            problem = f"ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"did not end within {bound_s:g} s"
        output = b""
    finally:
        # Whatever it has started, also when the doctor itself is interrupted.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if problem:
        output = process.communicate()[0] or output
    return _Trial([*received(output)], problem)


def timeout_ms() -> int:
    """How long a row may take here, if the environment says so in a usable way."""
    try:
        return activation_timeout_ms(os.environ)
    except BootError:
        return ACTIVATION_TIMEOUT_MS
