"""What a person names as a plugin: a requirement, a path or a URL."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ._grammar import UsageError

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS: Final = r"\[[A-Za-z0-9._, \t-]*\]"
_REQUIREMENT: Final = re.compile(rf"({_NAME})\s*({_EXTRAS})?\s*(\Z|[<>=!~(;].*)", re.DOTALL)
_DIRECT: Final = re.compile(rf"({_NAME})\s*({_EXTRAS})?\s*@\s*(\S.*)", re.DOTALL)
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_WITH_EXTRAS: Final = re.compile(rf"(.*?)\s*({_EXTRAS})?", re.DOTALL)
_ARCHIVES: Final = (".whl", ".tar.gz", ".zip")
_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#]*@")


class Spec(NamedTuple):
    """One thing to install."""

    name: str | None
    """Normalised; None if only the installer can tell."""
    requirement: str
    """As the manifest stores it; without a name, what the installer takes."""
    local: bool
    """A directory or file of this machine, which may have changed under the same version."""


def read_spec(word: str, cwd: Path) -> Spec:
    """One word of the command line; paths are taken from `cwd`. Raises UsageError."""
    text = word.strip()
    if not text:
        raise UsageError("a plugin to add is a requirement, a path or a URL, got an empty one")
    direct = _DIRECT.fullmatch(text)
    name, extras, place = (direct[1], direct[2] or "", direct[3]) if direct else (None, "", text)
    path = _path(place, named=direct is not None)
    if path is not None:
        if direct is None:
            path, extras = _split_extras(path)
        return _local(word, name, extras, Path(os.path.normpath(cwd / path)))
    if _URL.match(place):
        _refuse_secrets(place)
        return Spec(normal_name(name) if name else None, text, local=False)
    requirement = _REQUIREMENT.fullmatch(text)
    if requirement is None:
        raise UsageError(f"{masked(word)!r} is no requirement, path or URL of a plugin")
    return Spec(normal_name(requirement[1]), text, local=False)


def requirement_name(requirement: str) -> str | None:
    """The normalised name in a requirement of a manifest; None if it has none."""
    match = _DIRECT.fullmatch(requirement.strip()) or _REQUIREMENT.fullmatch(requirement.strip())
    return normal_name(match[1]) if match else None


def local_path(requirement: str) -> Path | None:
    """The directory or file of this machine that a requirement of a manifest names, if any."""
    direct = _DIRECT.fullmatch(requirement.strip())
    if direct is None or not direct[3].startswith("file:"):
        return None
    return Path(unquote(urlsplit(direct[3]).path))


def normal_name(name: str) -> str:
    """One spelling for each distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def masked(text: str) -> str:
    """`text` without what stands before the @ of a URL."""
    return _USERINFO.sub("***@", text)


def _path(place: str, *, named: bool) -> str | None:
    """The path that `place` means; None for anything else."""
    if place.startswith("file:"):
        rest = place.removeprefix("file:")
        return unquote(urlsplit(place).path) if rest.startswith("//") else rest
    if _URL.match(place):
        return None
    plain = _WITH_EXTRAS.fullmatch(place)
    bare = plain[1] if plain else place
    if named or place.startswith((".", "/", "~")) or bare.endswith(_ARCHIVES):
        return place
    # A slash cannot stand in a requirement, except in a marker, which follows a semicolon.
    return place if "/" in place.partition(";")[0] else None


def _split_extras(path: str) -> tuple[str, str]:
    match = _WITH_EXTRAS.fullmatch(path)
    assert match is not None
    return match[1], match[2] or ""


def _local(word: str, name: str | None, extras: str, path: Path) -> Spec:
    path = path.expanduser() if path.parts[:1] == ("~",) else path
    if path.is_dir():
        if not ((path / "pyproject.toml").is_file() or (path / "setup.py").is_file()):
            raise UsageError(f"{word!r} is no Python project: {path} has no pyproject.toml")
        found = _project_name(path)
    elif path.is_file():
        if not path.name.endswith(_ARCHIVES):
            raise UsageError(
                f"{word!r} is neither a wheel, a source archive nor a project's directory; a single"
                " file needs no installation: name it in a row of cordis.patch.yml, name: ./file.py"
            )
        found = path.name.split("-")[0] if path.suffix == ".whl" else None
    else:
        raise UsageError(f"{word!r}: there is no {path}")
    name = name or found
    if name is None:
        return Spec(None, f"{path}{extras}", local=True)
    return Spec(normal_name(name), f"{name}{extras} @ {path.as_uri()}", local=True)


def _project_name(directory: Path) -> str | None:
    import tomllib

    try:
        document = tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))
        name = document["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # the build backend may know it, and says what is wrong
    return name if isinstance(name, str) and re.fullmatch(_NAME, name) else None


def _refuse_secrets(url: str) -> None:
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    if at and (":" in user or "ssh" not in url.partition("://")[0]):
        raise UsageError(
            f"{masked(url)!r} holds credentials, which pyproject.toml would keep in the open; leave"
            " them out and let uv find them: .netrc, a keyring, or UV_INDEX_<NAME>_USERNAME and"
            " UV_INDEX_<NAME>_PASSWORD for an index"
        )
