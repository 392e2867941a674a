"""Sites: where a profile's own plugins are installed, apart from the running installation.

`sites/<hash>-cp311/` holds distributions beside each other as site-packages does, and a record of
what it was made for; the relative link `sites/current` names the one in use.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints

    from ._profiles import Profile

SITES: Final = "sites"
CURRENT_SITE: Final = "current"

_RECORD: Final = "dsh-site.json"
_IMPLEMENTATIONS: Final = {"cpython": "cp", "pypy": "pp"}


class SiteRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a site was made for, kept in it."""

    dependencies: tuple[str, ...]
    """The requirements of the profile's manifest."""
    product: str
    """Version of the running product that they were resolved against."""
    distributions: dict[str, str]
    """Normalised name to version of what the site holds."""


def python_tag() -> str:
    """Which Python a site of this process is for, like `cp311`."""
    name = sys.implementation.name
    threads = "t" if "t" in getattr(sys, "abiflags", "") else ""
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    return f"{_IMPLEMENTATIONS.get(name, name)}{version}{threads}"


def profile_site(profile: Profile) -> Path | None:
    """The site in use, if there is one for this Python; its directory belongs behind sys.path."""
    name = _current(profile)
    if name is None or not name.endswith(f"-{python_tag()}"):
        return None
    site = profile.directory / SITES / name
    return site if site.is_dir() else None


def join_site(profile: Profile, entry_points: EntryPoints) -> EntryPoints:
    """Make the profile's own plugins importable, behind all that is installed already."""
    site = profile_site(profile)
    if site is None:
        return entry_points
    if str(site) not in sys.path:
        sys.path.append(str(site))
    return entry_points.extended([str(site)])


def site_problem(profile: Profile, product: str) -> str | None:
    """Why the profile's plugins are not there as its manifest wants them; None if they are.

    `product` is the version of the running product. Reads two small files, and none in a profile
    without plugins.
    """
    name = _current(profile)
    if name is None:
        return "its plugins are not installed" if profile.dependencies else None
    site = profile_site(profile)
    if site is None:
        if (profile.directory / SITES / name).is_dir():
            made_for = name.rpartition("-")[2]
            return f"its plugins are installed for Python {made_for} and this is {python_tag()}"
        return "its plugins are not installed: the directory of its site is gone"
    record = read_site_record(site)
    if record is None:
        return f"the record of its site {site} is missing or damaged"
    if record.dependencies != profile.dependencies:
        return "its installed plugins are not those of its pyproject.toml"
    if record.product != product:
        return f"its plugins were installed for dsh {record.product} and this is {product}"
    return None


def sync_command(profile: Profile) -> str:
    """What a person types to mend a site."""
    return f"{_plugin_command(profile)} sync"


def remove_command(profile: Profile) -> str:
    """What a person types, with a name after it, to take a plugin or a row away."""
    return f"{_plugin_command(profile)} remove"


def _plugin_command(profile: Profile) -> str:
    import shlex  # only a mistake pays for it

    return f"dsh plugin --profile {shlex.quote(profile.name)}"


def read_site_record(site: Path) -> SiteRecord | None:
    """The record in `site`; None if it cannot be read."""
    try:
        return msgspec.json.decode((site / _RECORD).read_bytes(), type=SiteRecord)
    except (OSError, msgspec.DecodeError):
        return None


def write_site_record(site: Path, record: SiteRecord) -> None:
    """Store the record in a site that is not in use yet. Raises OSError."""
    (site / _RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(record)))


def _current(profile: Profile) -> str | None:
    try:
        return os.readlink(profile.directory / SITES / CURRENT_SITE)
    except OSError:
        return None
