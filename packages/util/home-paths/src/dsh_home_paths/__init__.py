"""Where the harness keeps its files."""

from __future__ import annotations

from ._home import HOME_PATH, HomePath, dsh_home_display, expand_home_path, resolve_dsh_home
from ._watch import canonical_watch_path

__all__ = (
    "HOME_PATH",
    "HomePath",
    "canonical_watch_path",
    "dsh_home_display",
    "expand_home_path",
    "resolve_dsh_home",
)
