"""What a command inherits unless it is told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# A list of what is let through, not of what is held back: a helper of the desktop or the system
# needs to find programs, the user, the language and the display, and no credential.
_INHERITED: Final = frozenset(
    "PATH HOME USER LOGNAME SHELL TMPDIR TZ TERM LANG LANGUAGE DISPLAY WAYLAND_DISPLAY XAUTHORITY"
    " XDG_RUNTIME_DIR XDG_SESSION_TYPE XDG_CURRENT_DESKTOP XDG_DATA_DIRS XDG_CONFIG_DIRS"
    " DBUS_SESSION_BUS_ADDRESS SYSTEMROOT".split()
)


def minimal_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of `environ` that any program may see."""
    return {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith("LC_")
    }
