"""Layers: bundles, then the profile's patch, the home's patch, and `--patch` files."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from dsh_cordis import CordisError
from dsh_cordis_include import Patch, apply_patches, read_patch_file

from ._errors import BootError
from ._packages import package_directory
from ._profiles import (
    BUNDLE_GROUP,
    PATCH_FILE,
    TEMPLATE_GROUP,
    Profile,
    refuse_special,
    shipped_profile,
)
from ._sites import profile_site, remove_command, sync_command

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoint, EntryPoints, Row


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One source of patches."""

    name: str
    """As provenance shows it: a bundle's name or a file's path."""
    trusted: bool
    """Whether it belongs to the installation: a bundle that is not from the profile's own site."""
    remove: str = ""
    """What takes a row of it away, less the last word."""
    removed: str = ""
    """That word; empty if it is the id of the row."""

    def remedy(self, row_id: str, *, what: str = "it") -> str:
        """What a person does about a row that came from here, quoted for a shell."""
        import shlex  # only a mistake pays for it

        word = self.removed or row_id
        end_of_options = "-- " if word.startswith("-") else ""
        remedy = f"{self.remove} {end_of_options}{shlex.quote(word)}"
        return f"remove {what} with: {remedy}" if remedy.startswith("dsh ") else remedy


class LayerProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that could not be used and was left out."""

    layer: str
    message: str
    remedy: str

    def told(self, *, strict: bool = False) -> str:
        """The problem and what to do; `strict` if nothing starts without the layer."""
        what = "cannot be used" if strict else "is left out"
        return f"{self.layer} {what}: {self.message}; {self.remedy}"


class SkippedPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that found no row to change."""

    layer: str
    message: str
    remedy: str
    """Empty for a patch of a bundle, which another bundle's absence may explain."""

    def __str__(self) -> str:
        return "; ".join(filter(None, (f"[{self.layer}] {self.message}", self.remedy)))


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that boot, and what was skipped on the way."""

    rows: tuple[Row, ...]
    skipped: tuple[SkippedPatch, ...]
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
        command = remove_command(profile)
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
            reading.add(name, patches, "leave out --patch", removed=name)
    rows, skipped = reading.applied()
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


def bundle_hint(profile: Profile, entry_points: EntryPoints) -> str:
    """What to write into a profile some of whose rows lack services; empty if nothing is known."""
    unlisted = unlisted_bundles(profile, entry_points)
    if not unlisted:
        return ""
    bundles = profile.bundles
    shipped: list[tuple[str, ...]] = []
    for name in entry_points[TEMPLATE_GROUP]:
        with contextlib.suppress(BootError):  # a damaged one has nothing to show
            template = shipped_profile(name, entry_points)
            if template is not None and {*bundles} < {*template.bundles}:
                shipped.append(template.bundles)
    write = ", ".join(f'"{bundle}"' for bundle in shipped[0]) if shipped else ""
    return (
        f"the profile {profile.name!r} starts the bundles {', '.join(bundles)};"
        f" installed but not listed in {profile.manifest}: {', '.join(unlisted)}"
        + (f"; write bundles = [{write}]" if write else "")
    )


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
        self._mend: dict[str, str] = {}

    def applied(self) -> tuple[tuple[Row, ...], list[SkippedPatch]]:
        """The rows after all patches; a layer that cannot be applied is left out like others."""
        while True:
            skipped: list[SkippedPatch] = []
            current: list[Patch] = []

            def feed() -> Iterator[Patch]:
                for patch in self.patches:
                    current[:] = [patch]  # noqa: B023 - consumed before the next round
                    yield patch

            def warn(_layer: str, text: str) -> None:
                skipped.append(self._skipped(current[0], text))  # noqa: B023 - as above

            try:
                return apply_patches((), feed(), warn=warn), skipped
            except CordisError as error:
                layer = current[0].layer
                if not self._tolerant or layer not in self._mend:
                    raise
                self.patches = [patch for patch in self.patches if patch.layer != layer]
                self.problems.append(
                    LayerProblem(layer=layer, message=str(error), remedy=self._mend[layer])
                )

    def _skipped(self, patch: Patch, message: str) -> SkippedPatch:
        layer = self.layers[patch.layer]
        remedy = "correct it"
        if patch.id is not None and layer.remove:
            remedy = f"correct its id, or {layer.remedy(patch.id)}"
        return SkippedPatch(
            layer=layer.name, message=message, remedy="" if layer.trusted else remedy
        )

    def add(
        self,
        name: str,
        patches: Sequence[Patch],
        remove: str,
        *,
        removed: str = "",
        trusted: bool = False,
    ) -> None:
        """Note what one layer says."""
        self.layers[name] = Layer(name=name, trusted=trusted, remove=remove, removed=removed)
        self.patches.extend(patches)

    def user_file(self, file: Path, remove: str) -> None:
        """A patch file of the user, which may be absent."""
        kept = file.with_name(f"{file.name}.last-good")
        last = f", or restore {kept}" if kept.is_file() else ""
        self._mend[str(file)] = f"correct it ([] is an empty one){last}"

        def read() -> None:
            _refuse_special(file)
            self.add(str(file), read_patch_file(file, required=False), remove)

        self._try(str(file), read, self._mend[str(file)])

    def bundle(self, bundle: str) -> None:
        """The patches of a bundle."""
        point = self._installed.get(bundle)
        if point is not None and not self._from_site(point):
            patches = _bundle_patches(bundle, point, self._where)
            self.add(bundle, patches, "", trusted=True)
        elif point is not None:
            if self._user_layers:
                remove, removed = remove_command(self._profile), point.distribution

                def read() -> None:
                    patches = _bundle_patches(bundle, point, self._where)
                    self.add(bundle, patches, remove, removed=removed)

                self._try(
                    bundle,
                    read,
                    f"mend it with: {sync_command(self._profile)}; or remove it with:"
                    f" {remove} {removed}",
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
    def _others(self) -> bool:
        """Whether any bundle of the profile belongs to the installation."""
        points = [self._installed.get(bundle) for bundle in self._profile.bundles]
        return any(point is not None and not self._from_site(point) for point in points)

    @property
    def _where(self) -> str:
        return f"profile {self._profile.name!r} at {self._profile.manifest}"

    def _from_site(self, point: EntryPoint) -> bool:
        return self._site is not None and point.location == str(self._site)

    def _missing(self, bundle: str, mend: str) -> None:
        import difflib  # only a mistake pays for it

        near = difflib.get_close_matches(bundle, self._installed, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        installed = ", ".join(self._installed) or "none"
        message = f"bundle {bundle!r} is not installed{meant}; installed are {installed}"
        if not (self._tolerant and self._others):
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


def _refuse_special(file: Path) -> None:
    try:
        refuse_special(file)
    except OSError as error:
        # Who reads a file that is not there says so, or why it cannot be looked at.
        if error.errno == errno.EINVAL:
            raise BootError(f"{file}: {error.strerror}", code="LAYER_UNUSABLE") from None


def _bundle_patches(bundle: str, point: EntryPoint, where: str) -> tuple[Patch, ...]:
    directory = package_directory(point.module)
    if directory is None or not (directory / PATCH_FILE).is_file():
        raise BootError(
            f"{where}: bundle {bundle!r} ({point.distribution} {point.version}) has no {PATCH_FILE}"
            f" in its package {point.module!r}; reinstall {point.distribution}",
            code="UNKNOWN_BUNDLE",
        )
    return read_patch_file(directory / PATCH_FILE, layer=bundle)
