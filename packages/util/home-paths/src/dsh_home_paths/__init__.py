"""Where the harness keeps its files."""

from __future__ import annotations

from ._home import HOME_PATH, HomePath, dsh_home_display, expand_home_path, resolve_dsh_home

__all__ = ("HOME_PATH", "HomePath", "dsh_home_display", "expand_home_path", "resolve_dsh_home")
