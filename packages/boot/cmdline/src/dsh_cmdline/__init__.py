"""The application's command line and exit, as services."""

from __future__ import annotations

from ._parse import CmdlineError, parse_arguments, parse_cmdline
from ._services import APP_EXIT, CMDLINE, AppExit, CommandLine

__all__ = (
    "APP_EXIT",
    "CMDLINE",
    "AppExit",
    "CmdlineError",
    "CommandLine",
    "parse_arguments",
    "parse_cmdline",
)
