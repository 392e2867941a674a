"""`dsh plugin`: the out-of-tree plugins of a profile. Its help imports nothing beyond this."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ._grammar import UsageError

if TYPE_CHECKING:
    from dsh_launch_environment import LaunchEnvironment

_USAGE: Final = """\
usage: dsh plugin --profile NAME add SPEC...
       dsh plugin --profile NAME remove NAME...
       dsh plugin --profile NAME list
       dsh plugin --profile NAME sync

Plugins of a profile that are no part of the installation.

  add SPEC...      install and note in the profile's pyproject.toml; a SPEC is a requirement
                   (dsh-dice, "dsh-dice[extra]>=1.2"), a wheel, a directory or a URL
  remove NAME...   take distributions away again; a NAME that is none is the id of a row, which is
                   taken out of the profile's or the home's cordis.patch.yml
  list             what is installed, what it offers, and whether it is mounted
  sync             install what pyproject.toml says, also after Python or dsh was upgraded

All plugins of a profile are resolved together against the running installation, whose versions
stand; what does not fit them is refused and nothing changes. uv does the work and reads its own
settings: UV_OFFLINE, UV_FIND_LINKS, UV_INDEX and the like, and its configuration files.
"""
_HELP: Final = ("-h", "--help")
_EDITABLE: Final = ("-e", "--editable")


class Request(NamedTuple):
    """One understood command line."""

    action: str
    profile: str
    words: tuple[str, ...]


def main(argv: Sequence[str], environment: LaunchEnvironment) -> int:
    """Run `dsh plugin` with these arguments; the exit status.

    1 for misuse and for what was refused, the installer's own status if it fails, 127 if there is
    no installer.
    """
    if any(word in _HELP for word in argv) or not argv:
        (sys.stdout if argv else sys.stderr).write(_USAGE)
        return 0 if argv else 1
    request = parse(argv)
    from ._plugin_errors import PluginError
    from ._plugin_run import run

    try:
        return run(request, environment)
    except PluginError as error:
        sys.stderr.write(f"dsh: {error}\n")
        return error.status


def parse(argv: Sequence[str]) -> Request:
    """Read `--profile NAME ACTION WORDS...`, the flag anywhere. Raises UsageError."""
    profile: str | None = None
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--profile" or word.startswith("--profile="):
            value = word.partition("=")[2] if "=" in word else rest.pop(0) if rest else ""
            if profile is not None or not value.strip() or value.startswith("-"):
                raise UsageError("--profile needs one profile's name")
            profile = value
        elif word == "--":
            words += rest
            break
        elif word.startswith("-"):
            raise UsageError(_refusal(word.partition("=")[0]))
        else:
            words.append(word)
    if not words or words[0] not in _ACTIONS:
        said = f", got {words[0]!r}" if words else ""
        raise UsageError(f"dsh plugin needs one of {', '.join(_ACTIONS)}{said}")
    action = words.pop(0)
    if profile is None:
        raise UsageError(f"dsh plugin {action} needs --profile NAME")
    if _ACTIONS[action] != bool(words):
        raise UsageError(
            f"dsh plugin {action} takes no {words[0]!r}"
            if words
            else f"dsh plugin {action} needs at least one name"
        )
    return Request(action, profile, tuple(words))


_ACTIONS: Final = {"add": True, "remove": True, "list": False, "sync": False}
"""Each action, and whether it takes words."""


def _refusal(option: str) -> str:
    if option in _EDITABLE:
        return (
            f"{option} is not for profiles: an editable installation would run code that was never"
            " checked against the running product; add the directory itself and run sync after a"
            " change, or, while you write it, mount the file by a row with name: ./plugin.py in"
            " cordis.patch.yml, which reloads as you save"
        )
    return (
        f"dsh plugin knows no option {option!r} and hands none to uv; uv's settings come from its"
        " own variables (UV_OFFLINE, UV_FIND_LINKS, UV_INDEX, ...) and configuration files"
    )
