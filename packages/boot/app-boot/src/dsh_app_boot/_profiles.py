"""Profiles: a directory of the harness home that says which bundles boot."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec

from ._errors import BootError
from ._packages import package_directory

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints

PATCH_FILE: Final = "cordis.patch.yml"
MANIFEST: Final = "pyproject.toml"
RESERVED_NAMES: Final = ("plugin", "doctor", "session", "demo", "help")
"""Words that are commands of the launcher and therefore no profiles."""

BUNDLE_GROUP: Final = "dsh.bundles"

TEMPLATE_GROUP: Final = "dsh.profiles"
_NAME: Final = re.compile(r"[^\s./\\\-\x00-\x1f][^\s/\\\x00-\x1f]*\Z")
_TEMPLATE_NAME: Final = re.compile(r'^name = "dsh-profile-.*-user"$', re.MULTILINE)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile, as its files say it."""

    name: str
    directory: Path
    """The user's directory, or the template's if the profile was read before its first use."""
    bundles: tuple[str, ...]
    dependencies: tuple[str, ...] = ()
    """The out-of-tree plugins, as requirements."""

    @property
    def manifest(self) -> Path:
        """The file that lists the bundles."""
        return self.directory / MANIFEST

    @property
    def patch_file(self) -> Path:
        """The profile's own layer; may be absent."""
        return self.directory / PATCH_FILE


def open_profile(
    name: str, *, home: Path, entry_points: EntryPoints, create: bool = True
) -> Profile:
    """The profile `name`, made from the template of that name on its first use.

    Files that exist are never overwritten. With `create=False` nothing is written: a profile that
    was never used is read from its template. Raises BootError.
    """
    check_profile_name(name)
    directory = profile_directory(home, name)
    if _taken(name, directory):
        try:
            return _read(name, directory, entry_points)
        except BootError as error:
            remedy = _mend(name, directory, entry_points)
            raise BootError(f"{error}; {remedy}", code=error.code) from None
    template = _template_directory(name, entry_points)
    if template is None:
        raise _missing(name, directory, home, entry_points)
    if not create:
        return _read(name, template, entry_points)
    _copy_template(template, directory, name)
    return _read(name, directory, entry_points)


def _taken(name: str, directory: Path) -> bool:
    """Whether the user has a manifest there, be it a directory or a link that leads nowhere."""
    try:
        (directory / MANIFEST).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _invalid(name, directory, f"it cannot be read: {error.strerror or error}") from None
    return True


def create_profile(name: str, template: str, *, home: Path, entry_points: EntryPoints) -> Profile:
    """Make a new profile from an installed template. Raises BootError, also if `name` exists."""
    check_profile_name(name)
    source = _template_directory(template, entry_points)
    if source is None:
        raise BootError(
            f"there is no profile template {template!r}; installed are"
            f" {_listed(entry_points[TEMPLATE_GROUP])}",
            code="UNKNOWN_TEMPLATE",
        )
    directory = profile_directory(home, name)
    if directory.exists():
        raise BootError(
            f"profile {name!r} exists already at {directory}; choose another name, or start it"
            f" with: dsh {name}",
            code="PROFILE_EXISTS",
        )
    _copy_template(source, directory, name)
    return _read(name, directory, entry_points)


def template_bundles(entry_points: EntryPoints) -> frozenset[str]:
    """The bundles that any installed template starts with."""
    found: set[str] = set()
    for name in entry_points[TEMPLATE_GROUP]:
        shipped = shipped_profile(name, entry_points)
        if shipped is not None:
            found.update(shipped.bundles)
    return frozenset(found)


def shipped_profile(name: str, entry_points: EntryPoints) -> Profile | None:
    """The profile `name` as it is shipped, whatever the user's directory holds; None if it is not.

    Raises BootError for a template that is damaged.
    """
    template = _template_directory(name, entry_points)
    return None if template is None else _read(name, template, entry_points)


def check_profile_name(name: str) -> None:
    """Raises BootError (`INVALID_PROFILE_NAME`) for a name that cannot be a profile's."""
    if name in RESERVED_NAMES:
        raise BootError(
            f'invalid profile name "{name}": it is a command of dsh', code="INVALID_PROFILE_NAME"
        )
    if not _NAME.match(name):
        raise BootError(
            f'invalid profile name "{name}": it names a directory, so it has no slash or space and'
            " begins with a letter, a digit or _",
            code="INVALID_PROFILE_NAME",
        )


def profile_directory(home: Path, name: str) -> Path:
    """Where the profile's files are."""
    return home / "profiles" / name


def check_home_writable(home: Path) -> None:
    """Raises BootError (`HOME_NOT_WRITABLE`) if nothing can be stored in the harness home."""
    existing = home
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if existing.is_symlink() and not os.path.exists(existing):
        raise _unwritable(home, f"{existing} is a link that leads nowhere")
    if not existing.is_dir():
        raise _unwritable(home, f"{existing} is not a directory")
    # access() knows read-only filesystems too, where the mode bits of root tell nothing.
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _unwritable(home, "it is read-only for this user")
    profiles = home / "profiles"
    if os.path.lexists(profiles) and not profiles.is_dir():
        raise _unwritable(home, f"{profiles} is not a directory")


def _unwritable(home: Path, reason: str) -> BootError:
    return BootError(
        f"the harness home {home} cannot be written ({reason}), so no session could be stored;"
        " make it writable, or set DSH_HOME to a directory that is",
        code="HOME_NOT_WRITABLE",
    )


def _template_directory(name: str, entry_points: EntryPoints) -> Path | None:
    point = entry_points[TEMPLATE_GROUP].get(name)
    if point is None:
        return None
    package = package_directory(point.module)
    template = None if package is None else package / "template"
    if template is None or not (template / MANIFEST).is_file():
        raise BootError(
            f"the profile template {name!r} of {point.distribution} has no"
            f" template/{MANIFEST}; reinstall {point.distribution}",
            code="UNKNOWN_TEMPLATE",
        )
    return template


def _copy_template(template: Path, directory: Path, name: str) -> None:
    """Copy what is missing. Several processes may do this at once; one of them wins each name."""
    import shutil  # only the first use of a profile pays for these
    import tempfile

    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=directory.parent))
    except OSError as error:
        raise _unwritable(directory.parent.parent, _told(error)) from None
    try:
        for source in template.iterdir():
            if source.is_file():
                shutil.copyfile(source, staged / source.name)
        manifest = staged / MANIFEST
        text = _TEMPLATE_NAME.sub(f'name = "dsh-profile-{name}-user"', manifest.read_text("utf-8"))
        manifest.write_text(text, "utf-8")
        staged.chmod(0o755)
        if not _renamed(staged, directory):
            _fill_in(staged, directory)
    except OSError as error:
        raise _unwritable(directory.parent.parent, _told(error)) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _told(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _renamed(staged: Path, directory: Path) -> bool:
    try:
        staged.rename(directory)
    except OSError:
        if directory.is_dir():
            return False
        raise
    return True


def _fill_in(staged: Path, directory: Path) -> None:
    for source in staged.iterdir():
        target = directory / source.name
        try:
            # A link fails if the name is taken, however it came to be taken meanwhile.
            os.link(source, target)
        except FileExistsError:
            continue


def _read(name: str, directory: Path, entry_points: EntryPoints) -> Profile:
    import tomllib

    manifest = directory / MANIFEST
    try:
        refuse_special(manifest)
        with manifest.open("rb") as stream:
            document = tomllib.load(stream)
    except OSError as error:
        raise _invalid(name, manifest, f"it cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(name, manifest, f"it is no TOML: {error}") from None
    table: object = document
    for key in ("tool", "dsh", "profile"):
        table = cast("Mapping[str, object]", table).get(key) if isinstance(table, Mapping) else None
    known = f"installed bundles are {_listed(entry_points[BUNDLE_GROUP])}"
    if not isinstance(table, Mapping):
        raise _invalid(name, manifest, f"it lacks [tool.dsh.profile] with bundles = [...]; {known}")
    fields = cast("Mapping[str, object]", table)
    unknown = sorted(set(fields) - {"bundles"})
    if unknown:
        raise _invalid(
            name, manifest, f"[tool.dsh.profile] has an unknown key {unknown[0]!r}; known: bundles"
        )
    bundles = fields.get("bundles")
    if not isinstance(bundles, list) or not all(
        isinstance(item, str) and item.strip() for item in cast("list[object]", bundles)
    ):
        raise _invalid(name, manifest, f"bundles must be a list of bundle names; {known}")
    names = tuple(cast("list[str]", bundles))
    if not names:
        raise _invalid(name, manifest, f"bundles is empty, so nothing would start; {known}")
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise _invalid(name, manifest, f"bundles names {twice!r} twice")
    return Profile(
        name=name,
        directory=directory,
        bundles=names,
        dependencies=_dependencies(name, manifest, document),
    )


def refuse_special(file: Path) -> None:
    """Raises OSError for what would be waited for: a pipe, a device, a socket."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(file))


def _mend(name: str, directory: Path, entry_points: EntryPoints) -> str:
    """What to do about a manifest that cannot be used."""
    manifest = directory / MANIFEST
    kept = manifest.with_name(f"{MANIFEST}.last-good")
    remedies = ["correct it"]
    if kept.is_file():
        remedies.append(f"restore {kept}")
    if name in entry_points[TEMPLATE_GROUP]:
        remedies.append(
            f"move it away, and the shipped one is used (dsh {name} --safe starts with that)"
        )
    return ", or ".join(remedies)


def _dependencies(name: str, manifest: Path, document: Mapping[str, object]) -> tuple[str, ...]:
    project = document.get("project", {})
    found = (
        cast("Mapping[str, object]", project).get("dependencies", [])
        if isinstance(project, Mapping)
        else None
    )
    if not isinstance(found, list) or not all(
        isinstance(item, str) for item in cast("list[object]", found)
    ):
        raise _invalid(name, manifest, "[project] dependencies must be a list of requirements")
    return tuple(cast("list[str]", found))


def _missing(name: str, directory: Path, home: Path, entry_points: EntryPoints) -> BootError:
    templates = entry_points[TEMPLATE_GROUP]
    if directory.exists():
        return _invalid(
            name,
            directory,
            f"it has no {MANIFEST}; write one with [tool.dsh.profile] and bundles = [...]"
            f" (installed bundles are {_listed(entry_points[BUNDLE_GROUP])}), or remove the"
            f" directory and run: dsh {name} --from-default-profile {_first(templates)}",
        )
    profiles = home / "profiles"
    present = (
        sorted(path.parent.name for path in profiles.glob(f"*/{MANIFEST}"))
        if profiles.is_dir()
        else []
    )
    known = dict.fromkeys([*templates, *present])
    return BootError(
        f'profile "{name}" does not exist{_near(name, known, entry_points["dsh.commands"])};'
        f" there are {_listed(known)}; create it with:"
        f" dsh {name} --from-default-profile {_first(templates)}",
        code="UNKNOWN_PROFILE",
    )


def _near(name: str, profiles: Mapping[str, object], commands: Mapping[str, object]) -> str:
    import difflib  # only a mistake pays for it

    near = difflib.get_close_matches(name, [*profiles, *commands], n=1)
    if not near:
        return ""
    return f" (did you mean {'' if near[0] in profiles else 'the command '}{near[0]}?)"


def _first(templates: Mapping[str, object]) -> str:
    return next(iter(templates), "TEMPLATE")


def _invalid(name: str, place: Path, problem: str) -> BootError:
    return BootError(f"profile {name!r} at {place}: {problem}", code="INVALID_PROFILE")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "none"
