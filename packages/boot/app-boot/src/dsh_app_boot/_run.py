"""The life of one `dsh` process with an application in it."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dsh_cmdline import APP_EXIT, CMDLINE, CommandLine
from dsh_cordis import Context

from ._boot import alive, boot
from ._errors import BootError
from ._shutdown import Shutdown, flush_output, leave

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints, Row
    from dsh_launch_environment import LaunchEnvironment

    from ._logging import StderrHandler

FATAL_GRACE_S: Final = 2.0
"""How long plugins may take to unload after a failure that nobody handled."""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """What one process runs."""

    rows: Sequence[Row]
    home: Path
    environment: LaunchEnvironment
    entry_points: EntryPoints
    args: tuple[str, ...] = ()
    hint: str = ""
    """Appended to a boot error about missing services."""


def run_application(
    application: Application,
    *,
    handler: StderrHandler | None = None,
    prepare: Callable[[Context], None] | None = None,
    booted: Callable[[], None] | None = None,
    program: str = "dsh",
) -> int:
    """Boot, stay until something ends the process, unload; the exit status.

    `prepare` sees the root before any row; `booted` is called once every row stands.

    Must run in the main thread: it handles SIGINT and SIGTERM. After a signal it does not return
    but ends the process once every plugin is unloaded, or after five seconds.
    """
    shutdown = Shutdown()
    shutdown.install_signal_handlers()
    try:
        code = asyncio.run(_run(application, shutdown, handler, prepare, booted, program))
    except KeyboardInterrupt:
        # Ctrl+C has a handler of its own here, so some plugin raised this one.
        sys.stderr.write(f"{program}: stopped from inside: {traceback.format_exc()}")
        raise
    if shutdown.forced:
        # Threads of plugins may not hold up somebody who pressed Ctrl+C.
        flush_output()
        leave(code)
    return code


async def _run(
    application: Application,
    shutdown: Shutdown,
    handler: StderrHandler | None,
    prepare: Callable[[Context], None] | None,
    booted: Callable[[], None] | None,
    program: str,
) -> int:
    root = Context()
    shutdown.attach(root)
    asyncio.get_running_loop().set_exception_handler(_fail_loud(shutdown, program))

    def provide(ctx: Context) -> None:
        ctx.provide(CMDLINE, CommandLine(application.args))
        ctx.provide(APP_EXIT, shutdown.app_exit)
        if prepare is not None:
            prepare(ctx)

    if handler is not None:
        handler.hold()
    failed = False
    try:
        if shutdown.code is None:
            await boot(
                root,
                application.rows,
                home=application.home,
                environment=application.environment,
                entry_points=application.entry_points,
                prepare=provide,
                hint=application.hint,
            )
        if booted is not None:
            booted()
    except BootError as error:
        failed = True
        if shutdown.code is None:
            sys.stderr.write(f"{program}: {error}\n")
        shutdown.request(1)
    finally:
        if handler is not None:
            handler.resume(drop=failed)
    if not alive(root):
        # A row disposed the whole tree: there is nothing left to wait for.
        shutdown.request(0)
    return await shutdown.wait()


def _fail_loud(
    shutdown: Shutdown, program: str
) -> Callable[[asyncio.AbstractEventLoop, Mapping[str, Any]], None]:
    """A failure that no task and no fiber owns ends the process: it must not go on half alive."""

    def handle(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, BaseException):
            loop.default_exception_handler(dict(context))
            return
        if shutdown.code is not None:
            return
        # First: out of memory, saying why may fail as well. A loop that is closed has nothing left
        # to end, and an interpreter that is on its way out starts no thread.
        if not loop.is_closed():
            shutdown.request(1, grace_s=FATAL_GRACE_S)
        stack = "".join(traceback.format_exception(error)).rstrip()
        sys.stderr.write(f"{program}: fatal load failure: {stack}\n")
        sys.stderr.flush()

    return handle
