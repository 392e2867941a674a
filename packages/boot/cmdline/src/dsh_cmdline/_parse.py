"""Parsing the application's arguments inside a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_cordis import CordisError

from ._services import APP_EXIT, CMDLINE

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from dsh_cordis import Context


class CmdlineError(CordisError):
    """The launcher's services are missing. Code: `LAUNCHER_MISSING`."""


def parse_cmdline(ctx: Context, parser: ArgumentParser) -> Namespace | None:
    """The parsed arguments; None after help, version or a usage error.

    In the latter cases argparse has printed its text and the process was asked to end (0 for help
    and version, 1 for misuse); the caller returns without publishing anything. Raises CmdlineError
    unless the launcher provides both services.
    """
    command_line, app_exit = ctx.get(CMDLINE), ctx.get(APP_EXIT)
    if command_line is None or app_exit is None:
        raise CmdlineError(
            f"{parser.prog}: the launcher must provide ctx.cmdline_args and ctx.app_exit"
            " before the tree mounts",
            code="LAUNCHER_MISSING",
        )
    try:
        return parser.parse_args(command_line.args)
    except SystemExit as request:
        # argparse ends the process itself; here the launcher does, after unloading the tree.
        app_exit(1 if request.code else 0)
        return None
