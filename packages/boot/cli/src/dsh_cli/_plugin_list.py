"""What the plugins of a profile are, offer and need: the table of `list`, and hints."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dsh_app_boot import (
    compose,
    read_site_record,
    site_problem,
    sync_command,
)
from dsh_cordis import CordisError
from dsh_cordis_include import read_patch_file
from dsh_cordis_loader import walk_rows

from ._plugin_site import current_site, is_intact
from ._plugin_specs import masked, requirement_name

if TYPE_CHECKING:
    from dsh_app_boot import Profile
    from dsh_cordis_loader import EntryPoints

_PATCHES: Final = "cordis.patch.yml"
_COLUMNS: Final = ("NAME", "VERSION", "OFFERS", "MOUNTED", "STATE")
_SHOWN: Final = (
    ("dsh.bundles", "bundle"),
    ("dsh.plugins", "plugin"),
    ("dsh.session_events", "event"),
)


def listing(profile: Profile, home: Path, running: EntryPoints) -> str:
    """The table, and what to do if something is not as the manifest wants it."""
    site = current_site(profile.directory)
    points = running.extended([str(site)] if site is not None else [])
    problem = site_problem(profile, running.distributions.get("dsh-app-boot", ""))
    if problem is None and site is not None and not is_intact(site):
        problem = "files of its installed plugins are gone"
    mounted = mounted_rows(profile, home, points)
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for requirement in profile.dependencies:
        name = requirement_name(requirement)
        if name is None:
            rows.append((masked(requirement), "", "", "", "no requirement with a name"))
            continue
        state = _state(name, profile, running, problem)
        offers = points if name in points.distributions else running
        rows.append(
            (
                name,
                points.distributions.get(name, "-"),
                ", ".join(_offers(name, offers)) or "nothing",
                "yes" if _is_mounted(name, offers, profile, mounted) else "no",
                state,
            )
        )
    lines = _table(rows) if len(rows) > 1 else [f"profile {profile.name} has no plugins"]
    if problem is not None:
        lines.append(f"profile {profile.name!r}: {problem}; run: {sync_command(profile)}")
    return "".join(f"{line}\n" for line in lines)


def mount_hint(name: str, profile: Profile, home: Path, points: EntryPoints) -> str | None:
    """How to mount a new distribution that has no bundle; None if there is nothing to say."""
    if any(point.distribution == name for point in points["dsh.bundles"].values()):
        return None
    plugins = [one.name for one in points["dsh.plugins"].values() if one.distribution == name]
    if not plugins:
        if any(_offers(name, points)):
            return None
        return f"{name} offers neither bundle nor plugin, so nothing of it starts"
    mounted = mounted_rows(profile, home, points)
    rows = "\n".join(
        f"    - {{id: {plugin.replace('/', '-')}, name: {plugin}}}"
        for plugin in plugins
        if plugin not in mounted
    )
    if not rows:
        return None
    return (
        f"{name} has no bundle; to mount it, put this into {profile.patch_file}"
        f" (instead of [] if that is all it holds):\n- insert:\n{rows}"
    )


def rows_naming(
    plugins: Collection[str], profile: Profile, home: Path
) -> Iterator[tuple[Path, str]]:
    """`(file, row id)` of rows of the user's files that mount any of these plugins."""
    for file in (profile.patch_file, home / _PATCHES):
        try:
            patches = read_patch_file(file, required=False)
        except CordisError:
            continue  # a boot says what is wrong with it
        for patch in patches:
            for row in walk_rows(patch.insert or ()):
                if row.name in plugins:
                    yield file, row.id


def mounted_rows(profile: Profile, home: Path, points: EntryPoints) -> frozenset[str]:
    """Names of the rows that boot; none if the profile cannot be composed."""
    try:
        rows = compose(profile, home=home, entry_points=points).rows
    except CordisError:
        return frozenset()
    return frozenset(row.name for row in walk_rows(rows) if row.name and row.disabled is not True)


def _state(name: str, profile: Profile, running: EntryPoints, problem: str | None) -> str:
    if name in running.distributions:
        return "ok (part of the installation)"
    site = current_site(profile.directory)
    record = read_site_record(site) if site is not None else None
    if record is None or name not in record.distributions:
        return "missing from the site"
    return "ok" if problem is None else "needs sync"


def _offers(name: str, points: EntryPoints) -> Iterator[str]:
    for group, what in _SHOWN:
        for point in points[group].values():
            if point.distribution == name:
                yield f"{what} {point.name}"


def _is_mounted(name: str, points: EntryPoints, profile: Profile, mounted: Collection[str]) -> bool:
    bundles, plugins = points["dsh.bundles"].values(), points["dsh.plugins"].values()
    return any(one.distribution == name and one.name in profile.bundles for one in bundles) or any(
        one.distribution == name and one.name in mounted for one in plugins
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
