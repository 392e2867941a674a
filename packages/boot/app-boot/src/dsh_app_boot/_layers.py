"""Layers: bundles, then the profile's patch, the home's patch, and `--patch` files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from dsh_cordis import CordisError
from dsh_cordis_include import Patch, apply_patches, read_patch_file

from ._errors import BootError
from ._packages import package_directory
from ._profiles import BUNDLE_GROUP, PATCH_FILE, Profile
from ._sites import profile_site, sync_command

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoint, EntryPoints, Row


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One source of patches."""

    name: str
    """As provenance shows it: a bundle's name or a file's path."""
    trusted: bool
    """Whether it belongs to the installation: a bundle that is not from the profile's own site."""
    remove: str = ""
    """What takes a row of it away; `{row}` stands for the row's id."""

    def remedy(self, row_id: str, *, what: str = "it") -> str:
        """What a person does about a row that came from here."""
        remedy = self.remove.format(row=row_id)
        return f"remove {what} with: {remedy}" if remedy.startswith("dsh ") else remedy


class LayerProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that could not be used and was left out."""

    layer: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.layer} is left out: {self.message}; {self.remedy}"


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that boot, and what was skipped on the way."""

    rows: tuple[Row, ...]
    skipped: tuple[tuple[str, str], ...]
    """`(layer, message)` for each patch that found no target."""
    layers: dict[str, Layer]
    """By name, lowest first."""
    problems: tuple[LayerProblem, ...] = ()
    patches: tuple[Patch, ...] = ()

    def trusted(self, layer: str) -> bool:
        """Whether the layer belongs to the installation; what an included file brings does not."""
        known = self.layers.get(layer)
        return known is not None and known.trusted

    def trusted_rows(self) -> tuple[Row, ...]:
        """What the installation's own bundles give, without a word of anybody else."""
        patches = [patch for patch in self.patches if self.trusted(patch.layer)]
        return apply_patches((), patches, warn=lambda _layer, _text: None)


def compose(
    profile: Profile,
    *,
    home: Path,
    entry_points: EntryPoints,
    overlays: Sequence[Path] = (),
    user_layers: bool = True,
    tolerant: bool = False,
    earlier: Composition | None = None,
) -> Composition:
    """Apply every layer over an empty list, as one list of patches. Imports no plugin.

    Without `user_layers` only the installation's bundles count and no file of the user is read.
    Raises BootError for a bundle that is not installed and IncludeError for a file that cannot be
    used; `tolerant` leaves out what is the user's and cannot be used, overlays excepted. What
    overlays say is taken from an `earlier` composition: a pipe can be read only once.
    """
    reading = _Reading(profile, entry_points, tolerant=tolerant, user_layers=user_layers)
    for bundle in profile.bundles:
        reading.bundle(bundle)
    if user_layers:
        command = f"dsh plugin --profile {profile.name} remove {{row}}"
        for file in (profile.patch_file, home / PATCH_FILE):
            reading.user_file(file, command)
        for overlay in overlays:
            # Named on the command line that is being run: nobody is locked out by it.
            name = str(overlay)
            patches = (
                read_patch_file(overlay)
                if earlier is None
                else [patch for patch in earlier.patches if patch.layer == name]
            )
            reading.add(name, patches, f"leave out --patch {overlay}")
    skipped: list[tuple[str, str]] = []
    rows = apply_patches(
        (), reading.patches, warn=lambda layer, text: skipped.append((layer, text))
    )
    return Composition(
        rows=rows,
        skipped=tuple(skipped),
        layers=reading.layers,
        problems=tuple(reading.problems),
        patches=tuple(reading.patches),
    )


def unlisted_bundles(profile: Profile, entry_points: EntryPoints) -> tuple[str, ...]:
    """Installed bundles that the profile does not name."""
    return tuple(name for name in entry_points[BUNDLE_GROUP] if name not in profile.bundles)


class _Reading:
    """The layers of one profile, read in order."""

    def __init__(
        self, profile: Profile, entry_points: EntryPoints, *, tolerant: bool, user_layers: bool
    ) -> None:
        self.layers: dict[str, Layer] = {}
        self.patches: list[Patch] = []
        self.problems: list[LayerProblem] = []
        self._profile = profile
        self._installed = entry_points[BUNDLE_GROUP]
        self._tolerant = tolerant
        self._user_layers = user_layers
        self._site = profile_site(profile)

    def add(
        self, name: str, patches: Sequence[Patch], remove: str, *, trusted: bool = False
    ) -> None:
        """Note what one layer says."""
        self.layers[name] = Layer(name=name, trusted=trusted, remove=remove)
        self.patches.extend(patches)

    def user_file(self, file: Path, remove: str) -> None:
        """A patch file of the user, which may be absent."""
        kept = file.with_name(f"{file.name}.last-good")
        last = f", or restore {kept}" if kept.is_file() else ""
        self._try(
            str(file),
            lambda: self.add(str(file), read_patch_file(file, required=False), remove),
            f"correct it ([] is an empty one){last}",
        )

    def bundle(self, bundle: str) -> None:
        """The patches of a bundle."""
        point = self._installed.get(bundle)
        if point is not None and not self._from_site(point):
            patches = _bundle_patches(bundle, point, self._where)
            self.add(bundle, patches, "", trusted=True)
        elif point is not None:
            if self._user_layers:
                remove = f"dsh plugin --profile {self._profile.name} remove {point.distribution}"
                self._try(
                    bundle,
                    lambda: self.add(bundle, _bundle_patches(bundle, point, self._where), remove),
                    f"mend it with: {sync_command(self._profile)}; or remove it with: {remove}",
                )
        elif self._user_layers or not self._plugins_expected:
            mend = (
                f"install it with: {sync_command(self._profile)}; or take it off the list"
                if self._plugins_expected
                else "install it or take it off the list"
            )
            self._missing(bundle, mend)

    @property
    def _plugins_expected(self) -> bool:
        """Whether the profile brings plugins of its own, one of which may have been this one."""
        return bool(self._profile.dependencies) or self._site is not None

    @property
    def _where(self) -> str:
        return f"profile {self._profile.name!r} at {self._profile.manifest}"

    def _from_site(self, point: EntryPoint) -> bool:
        return self._site is not None and point.location == str(self._site)

    def _missing(self, bundle: str, mend: str) -> None:
        import difflib  # only a mistake pays for it

        near = difflib.get_close_matches(bundle, self._installed, n=3) or list(self._installed)
        message = f"bundle {bundle!r} is not installed; installed are {', '.join(near) or 'none'}"
        others = any(other in self._installed for other in self._profile.bundles)
        if not (self._tolerant and others):
            raise BootError(f"{self._where}: {message}; {mend}", code="UNKNOWN_BUNDLE")
        self.problems.append(
            LayerProblem(layer=bundle, message=f"{self._where}: {message}", remedy=mend)
        )

    def _try(self, layer: str, read: Callable[[], None], remedy: str) -> None:
        if not self._tolerant:
            read()
            return
        try:
            read()
        except CordisError as error:
            self.problems.append(LayerProblem(layer=layer, message=str(error), remedy=remedy))


def _bundle_patches(bundle: str, point: EntryPoint, where: str) -> tuple[Patch, ...]:
    directory = package_directory(point.module)
    if directory is None or not (directory / PATCH_FILE).is_file():
        raise BootError(
            f"{where}: bundle {bundle!r} ({point.distribution} {point.version}) has no {PATCH_FILE}"
            f" in its package {point.module!r}; reinstall {point.distribution}",
            code="UNKNOWN_BUNDLE",
        )
    return read_patch_file(directory / PATCH_FILE, layer=bundle)
