"""Registers the tool and its guidance."""

from __future__ import annotations

import os
from typing import Annotated, Final

import msgspec
from dsh_cordis import ConfigError, Context
from dsh_shell import SHELL, ShellRequest
from dsh_shell_env import SHELL_ENV
from dsh_system_prompt import SYSTEM_PROMPT
from dsh_tools import TOOLS, ToolError, ToolExecution, define_tool
from msgspec import UNSET, Meta

from ._text import render
from ._value import BashArguments, BashValue, arguments_type, value_of

inject = (SHELL, SHELL_ENV, SYSTEM_PROMPT, TOOLS)

DESCRIPTION: Final = """\
Run a bash command and wait for it. Each call is a fresh shell without a terminal: no directory, \
variable or function survives, and a program that asks for input gets end of file. Set `workdir` \
instead of using cd. What you start with `&` may go on after the call; send its output to a file, \
later output is dropped. The text ends with `[exit code: N]` unless N is 0, or with `[killed by \
signal: S]`; `[timed out after Nms]` may stand before it. Of long output only the end is shown, \
and a line names the file that has all of it. `$DSH_HOME` is the harness's own directory, \
`$DSH_SESSION_ID` names this session."""

GUIDANCE: Final = """\
After each bash command look at its last line: without an exit marker it succeeded. Find out why a \
command failed before trying another."""


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the tool offers."""

    enable_run_in_background: Annotated[
        bool,
        Meta(description="Must be false: commands run in the foreground only."),
    ] = False


def apply(ctx: Context, config: Config) -> None:
    """Register for as long as the plugin is loaded."""
    if config.enable_run_in_background:
        raise ConfigError(
            "enableRunInBackground is true, but this harness runs commands in the foreground only;"
            " set it to false"
        )
    shell = ctx[SHELL]

    async def execute(args: BashArguments, execution: ToolExecution) -> BashValue:
        agent = execution.agent
        cwd = agent.session.header.cwd if agent is not None else UNSET
        spec = shell.resolve(
            ShellRequest(
                command=args.command,
                workdir=_workdir(args, cwd if isinstance(cwd, str) else None),
                timeout_ms=None if args.timeout_ms is UNSET else args.timeout_ms,
                signal=execution.signal,
                dsh_env=ctx[SHELL_ENV].collect(agent),
            )
        )
        result = await shell.run(spec)
        if result.aborted:
            raise ToolError(
                "the command was stopped before it finished; what it had done by then stays done",
                code="TOOL_ABORTED",
            )
        return value_of(result)

    definition = define_tool(
        name="bash",
        description=DESCRIPTION,
        params=arguments_type(
            default_timeout_ms=shell.default_timeout_ms, max_timeout_ms=shell.max_timeout_ms
        ),
        execute=execute,
        render=render,
        output=BashValue,
    )
    ctx[TOOLS].register(definition)
    ctx[SYSTEM_PROMPT].section("tool:bash", order=105, text=GUIDANCE)


def _workdir(args: BashArguments, cwd: str | None) -> str | None:
    if args.workdir is UNSET:
        return cwd
    return os.path.join(cwd or "", args.workdir) or None
