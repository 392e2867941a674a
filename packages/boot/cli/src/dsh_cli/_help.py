"""The launcher's help, from what is installed and without importing any of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoint, EntryPoints

_USAGE = """\
usage: dsh [flags] PROFILE [flags] [application arguments]
       dsh COMMAND [arguments]

Starts the application of a profile. `dsh PROFILE --help` shows the application's own help.

flags:
  --profile NAME               the profile, instead of PROFILE
  --from-default-profile NAME  create the profile from an installed template first
  --patch FILE                 apply a patch file on top of everything; may be repeated
  --strict                     refuse to start when a row or a file of yours fails
  --safe                       start without your patches and plugins
  --dump-config                print the rows that would start, and where they come from
  --dump-default-config        the same of the profile's bundles alone
  --dump-config-schema         print a JSON Schema of patch files, for editors
  --                           the rest belongs to the application
  -V, --version                print the version
  -h, --help                   print this
"""


def help_text(entry_points: EntryPoints) -> str:
    """Usage, flags, installed profile templates and commands."""
    return (
        _USAGE
        + _section("profiles", entry_points["dsh.profiles"])
        + _section("commands", entry_points["dsh.commands"])
    )


def _section(title: str, points: Mapping[str, EntryPoint]) -> str:
    if not points:
        return ""
    width = max(map(len, points))
    lines = [f"  {name:<{width}}  from {point.distribution}" for name, point in points.items()]
    return "\n".join(["", f"{title}:", *lines, ""])
