"""Parsing the application's arguments inside a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_cordis import CordisError

from ._services import APP_EXIT, CMDLINE

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

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
        return parse_arguments(command_line.args, parser, also=command_line.launcher_flags)
    except SystemExit as request:
        # argparse ends the process itself; here the launcher does, after unloading the tree.
        app_exit(1 if request.code else 0)
        return None


def parse_arguments(
    args: Sequence[str], parser: ArgumentParser, *, also: Sequence[str] = ()
) -> Namespace:
    """As `parser.parse_args`, with the nearest option named for one that is unknown.

    `also` are options that somebody else knows, who reads them before the application's.
    """
    parsed, unknown = parser.parse_known_args(args)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_near(unknown, parser, also)}")
    return parsed


def _near(unknown: Sequence[str], parser: ArgumentParser, also: Sequence[str]) -> str:
    import difflib  # only a mistake pays for it

    option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
    if option in also:
        return f"; {option} goes before the application's arguments"
    own = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001 - argparse shows them nowhere else
    near = difflib.get_close_matches(option, [*own, *also], n=1)
    if not near:
        return ""
    place = "" if near[0] in own else ", before the application's arguments"
    return f" (did you mean {near[0]}{place}?)"
