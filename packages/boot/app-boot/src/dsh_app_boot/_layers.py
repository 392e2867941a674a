"""Layers: bundles, then the profile's patch, the home's patch, and `--patch` files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from dsh_cordis_include import Patch, apply_patches, read_patch_file

from ._errors import BootError
from ._packages import package_directory
from ._profiles import BUNDLE_GROUP, PATCH_FILE, Profile

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints, Row


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that boot, and what was skipped on the way."""

    rows: tuple[Row, ...]
    skipped: tuple[tuple[str, str], ...]
    """`(layer, message)` for each patch that found no target."""


def compose(
    profile: Profile,
    *,
    home: Path,
    entry_points: EntryPoints,
    overlays: Sequence[Path] = (),
    user_layers: bool = True,
) -> Composition:
    """Apply every layer over an empty list, as one list of patches. Imports no plugin.

    Without `user_layers` only the bundles count and no file of the user is read. Raises BootError
    for a bundle that is not installed and IncludeError for a file that cannot be used.
    """
    patches: list[Patch] = []
    for bundle in profile.bundles:
        patches.extend(_bundle_patches(bundle, profile, entry_points))
    if user_layers:
        patches.extend(read_patch_file(profile.patch_file, required=False))
        patches.extend(read_patch_file(home / PATCH_FILE, required=False))
        for overlay in overlays:
            patches.extend(read_patch_file(overlay))
    skipped: list[tuple[str, str]] = []
    rows = apply_patches((), patches, warn=lambda layer, text: skipped.append((layer, text)))
    return Composition(rows=rows, skipped=tuple(skipped))


def unlisted_bundles(profile: Profile, entry_points: EntryPoints) -> tuple[str, ...]:
    """Installed bundles that the profile does not name."""
    return tuple(name for name in entry_points[BUNDLE_GROUP] if name not in profile.bundles)


def _bundle_patches(bundle: str, profile: Profile, entry_points: EntryPoints) -> tuple[Patch, ...]:
    installed = entry_points[BUNDLE_GROUP]
    point = installed.get(bundle)
    where = f"profile {profile.name!r} at {profile.manifest}"
    if point is None:
        import difflib  # only a mistake pays for it

        near = difflib.get_close_matches(bundle, installed, n=3) or list(installed)
        raise BootError(
            f"{where}: bundle {bundle!r} is not installed; installed are"
            f" {', '.join(near) or 'none'}; install it or take it off the list",
            code="UNKNOWN_BUNDLE",
        )
    directory = package_directory(point.module)
    if directory is None or not (directory / PATCH_FILE).is_file():
        raise BootError(
            f"{where}: bundle {bundle!r} ({point.distribution} {point.version}) has no {PATCH_FILE}"
            f" in its package {point.module!r}; reinstall {point.distribution}",
            code="UNKNOWN_BUNDLE",
        )
    return read_patch_file(directory / PATCH_FILE, layer=bundle)
