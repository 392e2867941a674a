"""What `dsh` does. Every step imports what it needs, so that cheap answers stay cheap."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_cordis import CordisError
from dsh_cordis_loader import EntryPoints, scan_entry_points

from ._grammar import FLAGS, Invocation, UsageError, parse

if TYPE_CHECKING:
    from dsh_app_boot import Application, Composition, Profile, StderrHandler
    from dsh_cordis_loader import Row, RowChange

PROGRAM = "dsh"


def launch(arguments: list[str], booted: Callable[[], None]) -> int:
    """Run `dsh` with these arguments; the exit status. `booted` is called once it stands."""
    try:
        return _dispatch(arguments, booted)
    except UsageError as error:
        return _fail(f"error: {error}\nTry `{PROGRAM} --help`.")
    except CordisError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of a dump or a help has seen enough.
        _abandon_stdout()
        return 0
    except KeyboardInterrupt:
        return 130


def _fail(message: str) -> int:
    _warn(message.removeprefix(f"{PROGRAM}: "))
    return 1


def _abandon_stdout() -> None:
    # Nothing that is left in its buffer may be tried again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str], booted: Callable[[], None]) -> int:
    from dsh_app_boot import RESERVED_NAMES

    entry_points = scan_entry_points()
    commands = entry_points["dsh.commands"]
    invocation = parse(arguments, commands={*RESERVED_NAMES, *commands})
    if invocation.version:
        return _print(f"{PROGRAM} {_version()}\n")
    if invocation.help or (invocation.command == "help" and "help" not in commands):
        from ._help import help_text

        return _print(help_text(entry_points))
    if invocation.command is not None:
        booted()
        return _run_command(invocation.command, invocation.args, entry_points)
    return _run_profile(invocation, entry_points, booted)


def _print(text: str) -> int:
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - None when started with it closed
        return _fail("standard output is closed")
    try:
        # Bytes: a YAML document is UTF-8 whatever the locale says.
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _abandon_stdout()
        return _fail(f"standard output cannot be written: {error.strerror}")
    return 0


def _version() -> str:
    from importlib.metadata import version  # off the boot path, where its cost does not matter

    return version("dsh-cli")


def _run_command(name: str, args: tuple[str, ...], entry_points: EntryPoints) -> int:
    import importlib

    from dsh_launch_environment import LaunchEnvironment

    point = entry_points["dsh.commands"].get(name)
    if point is None:
        raise UsageError(f"the command {name!r} is not part of this installation")
    module, _, attribute = point.value.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    return command(list(args), LaunchEnvironment(os.environ))


def _run_profile(
    invocation: Invocation, entry_points: EntryPoints, booted: Callable[[], None]
) -> int:
    home, cwd = _home(), _cwd()
    if invocation.dump is not None:
        return _dump(invocation, home, cwd, entry_points)
    from dsh_app_boot import run_application

    with _stderr_log() as handler:
        application = _application(invocation, home, cwd, entry_points)
        return run_application(application, handler=handler, booted=booted, program=PROGRAM)


def _application(
    invocation: Invocation, home: Path, cwd: Path, entry_points: EntryPoints
) -> Application:
    import logging

    from dsh_app_boot import (
        Application,
        Quarantine,
        activation_timeout_ms,
        bundle_hint,
        check_home_writable,
    )
    from dsh_launch_environment import load_layered_environment

    environment = load_layered_environment(PROGRAM, cwd, home, os.environ)
    check_home_writable(home)
    profile = _profile(invocation, home, entry_points, create=True)
    entry_points = _with_site(profile, entry_points, invocation)
    composition = _compose(invocation, profile, home, cwd, entry_points)
    for problem in () if invocation.safe else composition.problems:
        _warn(problem.told(strict=invocation.strict))
    log = logging.getLogger("dsh.cli")
    for skipped in composition.skipped:
        log.warning("%s", skipped)
    _refuse(invocation, composition)
    quarantine = Quarantine(composition, strict=invocation.strict)

    def recompose() -> Sequence[Row]:
        changed = _compose(invocation, profile, home, cwd, entry_points, earlier=composition)
        _refuse_new(changed, composition)
        return quarantine.admitted(changed.rows)

    return Application(
        rows=composition.rows,
        home=home,
        environment=environment,
        entry_points=entry_points,
        args=invocation.args,
        launcher_flags=FLAGS,
        hint=lambda: bundle_hint(profile, entry_points),
        quarantine=quarantine,
        store=None if invocation.safe else _Store(profile.patch_file),
        live_files=() if invocation.safe else (profile.patch_file, home / "cordis.patch.yml"),
        recompose=recompose,
        activation_timeout_ms=activation_timeout_ms(os.environ),
        rescue=f"start without your own rows with: {PROGRAM} {profile.name} --safe",
    )


def _refuse(invocation: Invocation, composition: Composition) -> None:
    """Raises BootError for a strict start with a file or a patch that is of no use."""
    from dsh_app_boot import BootError

    useless = [one for one in composition.skipped if not composition.trusted(one.layer)]
    if invocation.strict and (composition.problems or useless):
        raise BootError("a strict start lets nothing fail", code="REFUSED")


def _refuse_new(changed: Composition, booted: Composition) -> None:
    """Raises BootError for a layer that an edit broke; one that was broken at boot stays out."""
    from dsh_app_boot import BootError

    for problem in changed.problems:
        if problem not in booted.problems:
            raise BootError(f"{problem.message}; {problem.remedy}", code="LAYER_UNUSABLE")


class _Store:
    """The profile's patch file as the place for changes of rows, opened with the first of them."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def save(self, change: RowChange) -> None:
        from dsh_cordis_include import PatchFileStore

        await PatchFileStore(self._file).save(change)


def _dump(invocation: Invocation, home: Path, cwd: Path, entry_points: EntryPoints) -> int:
    profile = _profile(invocation, home, entry_points, create=invocation.template is not None)
    entry_points = _with_site(profile, entry_points, invocation)
    composition = _compose(invocation, profile, home, cwd, entry_points)
    for problem in composition.problems:
        _warn(problem.told(strict=invocation.strict))
    for skipped in composition.skipped:
        _warn(f"[{skipped.layer}] {skipped.message}")
    _refuse(invocation, composition)
    if invocation.dump == "--dump-config-schema":
        import json

        from dsh_app_boot import config_schema

        schema = config_schema(composition.rows, entry_points)
        return _print(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    from dsh_app_boot import dump_rows

    return _print(dump_rows(composition.rows))


def _profile(
    invocation: Invocation, home: Path, entry_points: EntryPoints, *, create: bool
) -> Profile:
    from dsh_app_boot import BootError, create_profile, open_profile, shipped_profile

    assert invocation.profile is not None
    if invocation.template is not None:
        return create_profile(
            invocation.profile, invocation.template, home=home, entry_points=entry_points
        )
    try:
        return open_profile(invocation.profile, home=home, entry_points=entry_points, create=create)
    except BootError as error:
        # Its bundles are not known: what is shipped under that name is as safe.
        safe = invocation.safe and error.code == "INVALID_PROFILE"
        shipped = shipped_profile(invocation.profile, entry_points) if safe else None
        if shipped is None:
            raise
        _warn(str(error))
        return shipped


def _with_site(profile: Profile, entry_points: EntryPoints, invocation: Invocation) -> EntryPoints:
    """Make the profile's own plugins importable, behind all that is installed already."""
    from dsh_app_boot import BootError, join_site, site_problem, sync_command

    if invocation.safe:
        return entry_points
    problem = site_problem(profile, entry_points.distributions.get("dsh-app-boot", ""))
    if problem is not None:
        problem = f"profile {profile.name!r}: {problem}; run: {sync_command(profile)}"
        if invocation.strict:
            raise BootError(problem, code="REFUSED")
        _warn(problem)
    return join_site(profile, entry_points)


def _warn(message: str) -> None:
    # What cannot be said anywhere is no reason to fail. None when started with it closed.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{PROGRAM}: {message}\n")


def _compose(
    invocation: Invocation,
    profile: Profile,
    home: Path,
    cwd: Path,
    entry_points: EntryPoints,
    *,
    earlier: Composition | None = None,
) -> Composition:
    from dsh_app_boot import compose

    return compose(
        profile,
        home=home,
        entry_points=entry_points,
        overlays=[cwd / file for file in invocation.patches],
        user_layers=not invocation.safe and invocation.dump != "--dump-default-config",
        tolerant=True,
        earlier=earlier,
    )


@contextmanager
def _stderr_log() -> Generator[StderrHandler]:
    import logging

    from dsh_app_boot import StderrHandler

    logger, handler = logging.getLogger("dsh"), StderrHandler(PROGRAM)
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield handler
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)


def _home() -> Path:
    from dsh_home_paths import resolve_dsh_home

    try:
        return resolve_dsh_home()
    except RuntimeError:
        raise UsageError("no home directory is known here; set DSH_HOME to a directory") from None


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the working directory was removed; change to another one") from None
