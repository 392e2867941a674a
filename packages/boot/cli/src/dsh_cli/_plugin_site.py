"""Making, checking and choosing the sites of a profile. A site in use never changes."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dsh_app_boot import (
    CURRENT_SITE,
    SITES,
    SiteRecord,
    python_tag,
    read_site_record,
    write_site_record,
)
from dsh_cordis_loader import scan_entry_points

from ._plugin_errors import PluginError
from ._plugin_specs import normal_name

if TYPE_CHECKING:
    from collections.abc import Generator

    from dsh_cordis_loader import EntryPoint, EntryPoints

_STAGED: Final = ".staged-"
_ACCIDENTAL: Final = frozenset(
    {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"}
)
"""Files of a distribution's metadata that say how it came here, not what it is."""
_OBJECT: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*(?::[^\W\d]\w*(?:\.[^\W\d]\w*)*)?")
_NEEDED: Final = re.compile(r"^Requires-Dist:\s*([A-Za-z0-9._-]+)", re.MULTILINE | re.IGNORECASE)


@contextmanager
def staged_site(profile: Path) -> Generator[Path]:
    """An empty directory beside the profile's sites; what is left of it at the end is removed."""
    sites = profile / SITES
    made = not sites.exists()
    sites.mkdir(mode=0o755, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=sites))
    try:
        staged.chmod(0o755)
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if made:
            with suppress(OSError):  # there is a site in it now
                sites.rmdir()


def current_site(profile: Path) -> Path | None:
    """The site that the link names, for whatever Python; None without one."""
    try:
        site = profile / SITES / os.readlink(profile / SITES / CURRENT_SITE)
    except OSError:
        return None
    return site if site.is_dir() else None


def publish(profile: Path, staged: Path, record: SiteRecord) -> Path:
    """Give a complete staged site the name that its content asks for; not in use yet."""
    write_site_record(staged, record)
    site = profile / SITES / f"{_digest(staged, record)}-{python_tag()}"
    if site.is_dir():
        if is_intact(site) and read_site_record(site) == record:
            return site
        site.rename(staged.with_name(f"{_STAGED}{secrets.token_hex(4)}"))
    staged.rename(site)
    return site


def choose(profile: Path, site: Path | None) -> None:
    """Make `site` the one in use; None: no site. The one before it stays, others are removed.

    A `dsh` that runs since before may still import from the one before.
    """
    sites = profile / SITES
    link = sites / CURRENT_SITE
    before = current_site(profile)
    if site is None:
        link.unlink(missing_ok=True)
    elif before != site:
        fresh = sites / f"{_STAGED}{secrets.token_hex(4)}"
        fresh.symlink_to(site.name)
        fresh.replace(link)
    kept = {CURRENT_SITE, *(one.name for one in (before, site) if one is not None)}
    for other in sites.iterdir() if sites.is_dir() else ():
        if other.name in kept:
            continue
        if other.is_dir() and not other.is_symlink():
            shutil.rmtree(other, ignore_errors=True)
        elif other.name.startswith(_STAGED):
            other.unlink(missing_ok=True)


def copy_without(site: Path, staged: Path, dependencies: Collection[str]) -> dict[str, str]:
    """Copy what these distributions of `site` need, with them; name to version of what it is.

    Whatever a distribution may ever need counts: a part of a set that fits together fits together.
    """
    held = dict(_metadata(site))
    wanted, found = list(dependencies), dict[str, str]()
    while wanted:
        name = wanted.pop()
        folder = held.get(name)
        if folder is None or name in found:
            continue
        found[name] = folder.name.removesuffix(".dist-info").partition("-")[2]
        with suppress(OSError):
            metadata = (folder / "METADATA").read_text("utf-8", "replace")
            wanted += [normal_name(each) for each in _NEEDED.findall(metadata)]
        for path in _files(folder):
            target = staged / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(site / path, target)
    return dict(sorted(found.items()))


def is_intact(site: Path) -> bool:
    """Whether a site has its record and all files that its distributions list."""
    record = read_site_record(site)
    held = dict(_metadata(site))
    return (
        record is not None
        and set(record.distributions) <= set(held)
        and all((site / path).exists() for folder in held.values() for path in _files(folder))
    )


def check_staged(staged: Path, wanted: Collection[str], running: EntryPoints) -> EntryPoints:
    """The entry points with those of `staged`; PluginError if something in it cannot work."""
    own = scan_entry_points([str(staged)])
    missing = sorted(set(wanted) - set(own.distributions))
    if missing:
        raise PluginError(
            f"uv did not install {', '.join(missing)}; nothing was changed",
            code="BAD_DISTRIBUTION",
        )
    for group in own.groups:
        for point in own[group].values():
            _check_point(group, point, staged)
    return running.extended([str(staged)])


def shadowed(staged: Path) -> Iterator[tuple[str, str]]:
    """`(distribution, module)` for each module that the running installation has too."""
    for name, folder in sorted(_metadata(staged)):
        for module in sorted({_module(path) for path in _files(folder)} - {""}):
            if module in sys.stdlib_module_names or PathFinder.find_spec(module) is not None:
                yield name, module


def overlaps(staged: Path) -> Iterator[tuple[str, str, str]]:
    """`(distribution, distribution, file)` for each file that two of them bring."""
    owners: dict[str, str] = {}
    for name, folder in sorted(_metadata(staged)):
        for path in sorted(_files(folder)):
            if owners.setdefault(path, name) != name:
                yield owners[path], name, path


def _check_point(group: str, point: EntryPoint, staged: Path) -> None:
    problem = None
    if not _OBJECT.fullmatch(point.value.replace(" ", "")):
        problem = "is neither module nor module:attr"
    elif (directory := _located(point.module, staged)) is None:
        problem = f"has no module {point.module!r} in it"
    elif group == "dsh.bundles":
        problem = _bundle_problem(directory)
    if problem is not None:
        raise PluginError(
            f"{point.distribution} {point.version} cannot work: its entry point {group}"
            f" {point.name} = {point.value} {problem}; nothing was changed",
            code="BAD_DISTRIBUTION",
        )


def _bundle_problem(package: Path) -> str | None:
    from dsh_cordis import CordisError
    from dsh_cordis_include import read_patch_file

    patches = package / "cordis.patch.yml"
    if not patches.is_file():
        return "names a package without cordis.patch.yml"
    try:
        read_patch_file(patches)
    except CordisError as error:
        return f"names a bundle that cannot be read: {error}"
    return None


def _located(module: str, staged: Path) -> Path | None:
    """The file or package directory of a module, as a boot will find it; nothing is imported."""
    path: list[str] | None = [*sys.path, str(staged)]
    place: Path | None = None
    parts = module.split(".")
    for number in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: number + 1]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
        place = Path(path[0]) if path else Path(spec.origin or "")
    return place


def _digest(staged: Path, record: SiteRecord) -> str:
    digest = hashlib.sha256("\n".join([record.product, *record.dependencies]).encode())
    for name, folder in sorted(_metadata(staged)):
        digest.update(f"\n{name}\n".encode())
        for row in sorted(_rows(folder)):
            if row[0].rpartition("/")[2] not in _ACCIDENTAL:
                digest.update(",".join(row).encode("utf-8", "surrogateescape"))
                if not any(row[1:2]) and (staged / row[0]).is_file():  # a lax build backend
                    digest.update((staged / row[0]).read_bytes())
    return digest.hexdigest()[:16]


def _metadata(site: Path) -> Iterator[tuple[str, Path]]:
    for folder in site.glob("*.dist-info"):
        yield normal_name(folder.name.removesuffix(".dist-info").partition("-")[0]), folder


def _files(folder: Path) -> set[str]:
    """What a distribution installed, relative to its site; nothing from outside of it."""
    paths = {os.path.normpath(row[0]) for row in _rows(folder)}
    return {path for path in paths if not path.startswith(("..", "/"))}


def _rows(folder: Path) -> list[list[str]]:
    try:
        with (folder / "RECORD").open(encoding="utf-8", newline="") as stream:
            return [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def _module(path: str) -> str:
    """The top-level module that a file belongs to; empty if it is none."""
    top, slash, _ = path.partition("/")
    if slash:
        return top if top.isidentifier() and top != "bin" else ""
    stem = top.partition(".")[0]
    return stem if top.endswith((".py", ".so")) and stem.isidentifier() else ""
