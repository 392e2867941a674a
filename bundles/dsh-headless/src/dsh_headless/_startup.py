"""Parses the command line and publishes what the runner's row reads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

import msgspec
from dsh_cmdline import APP_EXIT, CMDLINE, parse_cmdline
from dsh_cordis import Context, CordisError, FiberState, ServiceKey
from dsh_cordis_loader import LOADER

from ._output import say

HEADLESS_STARTUP = ServiceKey["StartupOptions"]("headless_startup")

name = "dsh-headless/startup"
inject = (APP_EXIT, CMDLINE)
provides = HEADLESS_STARTUP
"""Told to `dsh doctor`, which starts no application: what it would provide is not missed."""


class StartupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; empty text means not given."""

    task: str
    """The words, joined; `-` alone means that stdin holds the task."""
    json: bool
    session_id: str
    model: str

    def expression_fields(self) -> Mapping[str, object]:
        """What `!expr ctx.headless_startup.<field>` sees."""
        return {
            "task": self.task,
            "json": self.json,
            "sessionId": self.session_id,
            "model": self.model,
        }


def apply(ctx: Context, config: object) -> None:  # noqa: ARG001 - the plugin form
    """Publish the options; after help or misuse nothing, so that the runner never starts."""
    parser = _parser()
    parsed = parse_cmdline(ctx, parser)
    if parsed is None:
        return
    task = " ".join(parsed.words).strip()
    if not task:
        parser.print_usage(sys.stderr)
        sys.stderr.write(
            "dsh headless: error: a task is required; give words, or - to read it from stdin\n"
        )
        ctx[APP_EXIT](1)
        return
    options = StartupOptions(
        task=task,
        json=parsed.json,
        session_id=parsed.session_id or "",
        model=parsed.model or "",
    )
    ctx.provide(HEADLESS_STARTUP, options)
    ctx.spawn(_expect_runner, ctx, name="headless startup")


async def _expect_runner(ctx: Context) -> None:
    """End the process where no row takes the task: it would wait for one for ever."""
    loader = ctx.get(LOADER)
    if loader is None:
        return
    try:
        await loader.settled()
    except CordisError:
        return  # the launcher tells of rows that failed
    active = all(fiber.state is FiberState.ACTIVE for fiber in (ctx.fiber, ctx.root.fiber))
    fibers = [fiber for runtime in ctx.registry.values() for fiber in runtime.fibers]
    if active and not any(HEADLESS_STARTUP.name in fiber.inject for fiber in fibers):
        say(
            "no row takes the task: headless-runner is switched off or left out;"
            " start without your own rows with: dsh headless --safe"
        )
        ctx[APP_EXIT](1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dsh headless",
        description="Let an agent do one task in the current directory, then exit.",
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="WORDS", help="the task; - alone: read stdin")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line, as it happens"
    )
    parser.add_argument(
        "--session-id",
        type=_not_blank,
        metavar="ID",
        help="go on with a stored session",
    )
    parser.add_argument(
        "--model",
        type=_not_blank,
        metavar="[PROVIDER/]MODEL",
        help="use this model for the run",
    )
    return parser


def _not_blank(value: str) -> str:
    # An unset variable of a script must not turn "go on" into "begin anew".
    if not value.strip():
        raise argparse.ArgumentTypeError("needs a value, got an empty one")
    return value
