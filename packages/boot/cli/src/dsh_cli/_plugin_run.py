"""One `dsh plugin` command: its profile, its lock, its order of writes.

The manifest and the link to the site are two files. They are written in the order in which a
process that is killed between them leaves a profile that boots: what leaves is taken out of the
manifest before the site changes, what comes is put into it afterwards.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dsh_app_boot import (
    Profile,
    SiteRecord,
    check_home_writable,
    open_profile,
    profile_site,
    read_site_record,
    site_problem,
    sync_command,
    template_bundles,
)
from dsh_atomic_write import AtomicWriteError, file_lock, write_file_atomic
from dsh_cordis_include import remove_row_from_file
from dsh_cordis_loader import EntryPoints, scan_entry_points
from dsh_home_paths import resolve_dsh_home

from . import _plugin_site as sites
from ._grammar import UsageError
from ._plugin_errors import PluginError
from ._plugin_list import listing, mount_hint, rows_naming
from ._plugin_manifest import edit_manifest
from ._plugin_specs import Spec, local_path, masked, read_spec, requirement_name
from ._plugin_uv import Planned, Uv, running_versions

if TYPE_CHECKING:
    from dsh_launch_environment import LaunchEnvironment

    from ._plugin import Request

_LONGEST_WAIT_MS: Final = 3_600_000


def run(request: Request, environment: LaunchEnvironment) -> int:
    """Do what was asked; the exit status. Raises UsageError, PluginError and BootError."""
    home = resolve_dsh_home()
    points = scan_entry_points()
    cwd = Path.cwd()
    specs = [read_spec(word, cwd) for word in request.words] if request.action == "add" else []
    profile = open_profile(request.profile, home=home, entry_points=points, create=False)
    if request.action == "list":
        sys.stdout.write(listing(profile, home, points))
        return 0
    check_home_writable(home)
    try:
        with _held(home / "profiles" / f".{request.profile}.plugins"):
            new = not (home / "profiles" / request.profile).exists()
            profile = open_profile(request.profile, home=home, entry_points=points)
            if new:
                _say(f"initialized profile {profile.name} at {profile.directory}")
            session = _Session(profile, home, points, environment.merged)
            if request.action == "add":
                return session.add(specs)
            return session.sync() if request.action == "sync" else session.remove(request.words)
    except OSError as error:
        place = f" {error.filename}" if error.filename else ""
        raise PluginError(
            f"the profile cannot be written:{place}: {error.strerror or error}", code="NOT_WRITABLE"
        ) from None


@contextmanager
def _held(file: Path) -> Generator[None]:
    """One command at a time on a profile. An interrupt reaches the code in the block directly."""
    with asyncio.Runner() as runner:
        lock = file_lock(file, wait_ms=0)
        try:
            runner.run(lock.__aenter__())
        except AtomicWriteError as error:
            if error.code != "LOCK_TIMEOUT":
                raise
            _say("waiting for another dsh plugin on this profile")
            lock = file_lock(file, wait_ms=_LONGEST_WAIT_MS)
            runner.run(lock.__aenter__())
        try:
            yield
        finally:
            runner.run(lock.__aexit__(None, None, None))


class _Session:
    """A profile that nobody else changes meanwhile."""

    def __init__(
        self, profile: Profile, home: Path, points: EntryPoints, environ: Mapping[str, str]
    ) -> None:
        self._profile = profile
        self._home = home
        self._points = points
        self._environ = environ
        self._product = points.distributions.get("dsh-app-boot", "")
        before = sites.current_site(profile.directory)
        self._before = read_site_record(before) if before is not None else None
        self._points_before = scan_entry_points([str(before)] if before is not None else [])

    # -- commands ---------------------------------------------------------------------------------

    def add(self, specs: Sequence[Spec]) -> int:
        named = [spec.name for spec in specs if spec.name]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"{twice!r} is to be added twice; name it once")
        kept = {
            requirement: requirement_name(requirement)
            for requirement in self._profile.dependencies
            if requirement_name(requirement) not in named
        }
        return self._install(list(kept), specs)

    def sync(self) -> int:
        profile = self._profile
        if not profile.dependencies:
            self._commit((), None, self._points, removed=())
            return _done("the profile has no plugins")
        site = profile_site(profile)
        local = filter(None, map(local_path, profile.dependencies))
        in_step = (
            site is not None
            and site_problem(profile, self._product) is None
            and sites.is_intact(site)
            and not any(path.exists() for path in local)  # they may have changed
        )
        if in_step:
            return _done("the installed plugins are those of pyproject.toml")
        return self._install(list(profile.dependencies), ())

    def remove(self, words: Sequence[str]) -> int:
        held = {requirement_name(one): one for one in self._profile.dependencies}
        names = {word: requirement_name(word) for word in words}
        leaving = {name for name in names.values() if name in held}
        unknown = [word for word, name in names.items() if name not in leaving]
        missing = [word for word in unknown if not self._remove_row(word)]
        if leaving:
            self._uninstall([held[name] for name in leaving])
        if missing:
            raise PluginError(
                f"profile {self._profile.name!r} has no plugin and no row {', '.join(missing)};"
                f" its plugins are {', '.join(str(name) for name in held) or 'none'}, and rows are"
                f" looked for in {self._profile.patch_file} and {self._home / 'cordis.patch.yml'}",
                code="NOT_A_PLUGIN",
            )
        return 0

    def _remove_row(self, row: str) -> bool:
        found = False
        for file in (self._profile.patch_file, self._home / "cordis.patch.yml"):
            if remove_row_from_file(file, row):
                sys.stdout.write(f"- row {row} of {file}\n")
                found = True
        return found

    # -- steps ------------------------------------------------------------------------------------

    def _install(self, kept: Sequence[str], specs: Sequence[Spec]) -> int:
        directory = self._profile.directory
        uv = Uv(self._environ, directory)
        fixed = running_versions()
        wanted = [*kept, *(spec.requirement for spec in specs)]
        planned = uv.plan(wanted, fixed, self._preferred(kept))
        requirements = self._merged(specs, planned)
        self._note_present(requirements, fixed)
        planned = tuple(one for one in planned if one.name not in fixed)
        with sites.staged_site(directory) as staged:
            if planned:
                uv.install(planned, staged)
            points = sites.check_staged(staged, [one.name for one in planned], self._points)
            self._warn(staged, points)
            record = SiteRecord(
                dependencies=tuple(requirements),
                product=self._product,
                distributions={one.name: _version_in(points, one.name) for one in planned},
            )
            site = sites.publish(directory, staged, record)
            points = self._points.extended([str(site)])
            self._commit(requirements, site, points, removed=())
        self._tell(record.distributions, points, requirements)
        return 0

    def _uninstall(self, leaving: Sequence[str]) -> None:
        """Needs neither uv nor an index: a part of what fits together fits together."""
        profile = self._profile
        kept = [one for one in profile.dependencies if one not in leaving]
        removed = {requirement_name(one) or "" for one in leaving}
        site = profile_site(profile)
        record = read_site_record(site) if site is not None else None
        if not kept or site is None or record is None:
            # Without a usable site there is nothing to copy; what is left is for sync to install.
            chosen = None if not kept else sites.current_site(profile.directory)
            points = self._points.extended([str(chosen)] if chosen else [])
            self._commit(kept, chosen, points, removed=removed)
            self._tell({}, points, kept)
            if kept:
                _say(f"the plugins that stay are not installed; run: {sync_command(profile)}")
        else:
            names = [requirement_name(one) or "" for one in kept]
            with sites.staged_site(profile.directory) as staged:
                held = sites.copy_without(site, staged, names)
                left = tuple(one for one in record.dependencies if one not in leaving)
                smaller = SiteRecord(dependencies=left, product=record.product, distributions=held)
                site = sites.publish(profile.directory, staged, smaller)
                points = self._points.extended([str(site)])
                self._commit(kept, site, points, removed=removed)
            self._tell(held, points, kept)
        gone = {
            point.name
            for point in self._points_before["dsh.plugins"].values()
            if point.distribution in removed and point.name not in self._points["dsh.plugins"]
        }
        for file, row in rows_naming(gone, profile, self._home):
            command = f"dsh plugin --profile {profile.name} remove {row}"
            _say(f"the row {row!r} in {file} still mounts what is gone; run: {command}")

    def _commit(
        self,
        requirements: Sequence[str],
        site: Path | None,
        points: EntryPoints,
        *,
        removed: Iterable[str],
    ) -> None:
        profile = self._profile
        staying, coming = self._reconciled(requirements, points, frozenset(removed))
        if not staying and not coming:
            raise PluginError(
                f"nothing would start: profile {profile.name!r} has no other bundle; name one in"
                f" {profile.manifest} first",
                code="MANIFEST",
            )
        # Only what leaves: the requirement of an upgrade stays until its site is in use.
        names = {requirement_name(one) for one in requirements}
        still = [one for one in profile.dependencies if requirement_name(one) in names]
        self._write(still, staying)
        sites.choose(profile.directory, site)
        self._write(requirements, [*staying, *coming])
        for bundle in coming:
            _say(f"bundle {bundle} is mounted in profile {profile.name}")

    def _reconciled(
        self, requirements: Sequence[str], points: EntryPoints, removed: frozenset[str]
    ) -> tuple[list[str], list[str]]:
        """The bundles that stay and those that come."""
        offered = points["dsh.bundles"]
        names = {requirement_name(one) for one in requirements}
        own = {requirement_name(one) for one in self._profile.dependencies}
        own |= set(self._points_before["dsh.bundles"])

        def leaves(bundle: str) -> bool:
            point = offered.get(bundle)
            return bundle in own if point is None else point.distribution in removed

        shipped = template_bundles(self._points)
        staying = [one for one in self._profile.bundles if one in shipped or not leaves(one)]
        coming = [
            name
            for name, point in offered.items()
            if point.distribution in names and name not in staying
        ]
        return staying, coming

    def _write(self, requirements: Sequence[str], bundles: Sequence[str]) -> None:
        file = Path(os.path.realpath(self._profile.manifest))
        text = file.read_bytes().decode("utf-8")
        edited = edit_manifest(
            text,
            dependencies=requirements,
            bundles=bundles,
            name_of=lambda one: requirement_name(one) or one,
        )
        if edited != text:
            manifest = self._profile.manifest
            write_file_atomic(manifest.with_name(f"{manifest.name}.last-good"), text)
            write_file_atomic(file, edited)

    def _preferred(self, kept: Sequence[str]) -> dict[str, str]:
        """Versions in use that this command does not ask to change."""
        if self._before is None:
            return {}
        pinned = {requirement_name(one) for one in kept if local_path(one) is None}
        asked = {requirement_name(one) for one in self._profile.dependencies} - pinned
        return {
            name: version
            for name, version in self._before.distributions.items()
            if name not in asked
        }

    def _merged(self, specs: Sequence[Spec], planned: Sequence[Planned]) -> list[str]:
        """Requirements by name, new ones in the place of old ones of that name."""
        merged = {requirement_name(one) or one: one for one in self._profile.dependencies}
        for spec in specs:
            name, requirement = spec.name, spec.requirement
            if name is None:
                name = _name_of(spec, planned)
                requirement = f"{name} @ {_as_url(requirement)}"
            merged[name] = requirement
        return list(merged.values())

    def _note_present(self, requirements: Sequence[str], fixed: Mapping[str, str]) -> None:
        for requirement in requirements:
            name = requirement_name(requirement)
            if name is not None and name in fixed:
                _say(f"{name} {fixed[name]} is part of the running installation, which is used")

    def _warn(self, staged: Path, points: EntryPoints) -> None:
        for name, module in sites.shadowed(staged):
            _say(
                f"warning: {name} brings a module {module!r} that the running installation has"
                " too; the installation's is used"
            )
        for one, other, file in sites.overlaps(staged):
            _say(f"warning: {one} and {other} both bring {file}; one of them may not work")
        own = scan_entry_points([str(staged)])
        for group in own.groups:
            for point in own[group].values():
                used = points[group][point.name]
                if used.distribution != point.distribution:
                    _say(
                        f"warning: {point.distribution} offers {group} {point.name!r} as"
                        f" {used.distribution} does, whose is used"
                    )

    def _tell(
        self, held: Mapping[str, str], points: EntryPoints, requirements: Sequence[str]
    ) -> None:
        before = self._before.distributions if self._before else {}
        for name in sorted({*before, *held}):
            old, new = before.get(name), held.get(name)
            if old == new:
                continue
            if old and new:
                sys.stdout.write(f"~ {name} {old} -> {new}\n")
            else:
                sys.stdout.write(f"+ {name} {new}\n" if new else f"- {name} {old}\n")
        known = {requirement_name(one) for one in self._profile.dependencies}
        for requirement in requirements:
            name = requirement_name(requirement)
            if name is not None and name not in known:
                hint = mount_hint(name, self._profile, self._home, points)
                if hint:
                    _say(hint)


def _name_of(spec: Spec, planned: Sequence[Planned]) -> str:
    place = _as_url(spec.requirement).partition("#")[0]
    for one in planned:
        if one.url is not None and one.url.startswith(place):
            return one.name
    raise PluginError(
        f"the distribution in {masked(spec.requirement)} has no name that can be found; write"
        " NAME @ in front of it",
        code="NOT_A_PLUGIN",
    )


def _as_url(place: str) -> str:
    return Path(place).as_uri() if place.startswith("/") else place


def _version_in(points: EntryPoints, name: str) -> str:
    return points.distributions[name]


def _say(text: str) -> None:
    sys.stderr.write(f"dsh: {text}\n")


def _done(text: str) -> int:
    _say(text)
    return 0
