"""The life of one `dsh` process with an application in it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dsh_cmdline import APP_EXIT, CMDLINE, CommandLine
from dsh_cordis import Context
from dsh_cordis_loader import walk_rows

from ._boot import alive, boot
from ._errors import BootError
from ._live import watch_layers
from ._shutdown import SHUTDOWN_GRACE_S, Shutdown, flush_output, leave
from ._watchdog import ACTIVATION_TIMEOUT_MS

if TYPE_CHECKING:
    from dsh_cordis_loader import EntryPoints, Row, RowStore
    from dsh_launch_environment import LaunchEnvironment

    from ._logging import StderrHandler
    from ._quarantine import Quarantine

FATAL_GRACE_S: Final = 2.0
"""How long plugins may take to unload after a failure that nobody handled."""

STUCK_GRACE_S: Final = 1.0
"""How long they may take when one of them is known never to end."""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """What one process runs."""

    rows: Sequence[Row]
    home: Path
    environment: LaunchEnvironment
    entry_points: EntryPoints
    args: tuple[str, ...] = ()
    launcher_flags: tuple[str, ...] = ()
    """What the launcher reads before `args`."""
    hint: Callable[[], str] = str
    """What to add to a boot error about missing services."""
    quarantine: Quarantine | None = None
    """Sets aside what fails of the user's; None makes any failure fatal."""
    store: RowStore | None = None
    """Keeps the changes of rows that plugins make."""
    live_files: Sequence[Path] = ()
    """The files whose edits are applied while it runs, by mounting what `recompose` returns."""
    recompose: Callable[[], Sequence[Row]] | None = None
    activation_timeout_ms: int = ACTIVATION_TIMEOUT_MS
    rescue: str = ""
    """What to do when a plugin holds up the start for good."""


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
        ctx.provide(CMDLINE, CommandLine(application.args, application.launcher_flags))
        ctx.provide(APP_EXIT, shutdown.app_exit)
        if prepare is not None:
            prepare(ctx)

    if handler is not None:
        handler.hold()
    failed = False
    try:
        if shutdown.code is None:
            await _boot(root, application, provide, program)
        if booted is not None:
            booted()
    except BootError as error:
        failed = True
        if shutdown.code is None:
            _tell(program, application)
            _say(program, str(error))
        shutdown.request(1, grace_s=_grace_s(application))
    finally:
        set_aside = application.quarantine.rows if application.quarantine is not None else ()
        if handler is not None:
            # What the kernel said of rows on the way is told again in the end, or is mended.
            told = [row.id for row in walk_rows(application.rows)] if set_aside else ()
            handler.resume(drop=failed, told=told)
    if not failed and shutdown.code is None:
        _tell(program, application)
        shutdown.grace_s = _grace_s(application)
        _check_application(root, application, shutdown, program)
    if not alive(root):
        # A row disposed the whole tree: there is nothing left to wait for.
        shutdown.request(0)
    return await shutdown.wait()


async def _boot(
    root: Context, application: Application, prepare: Callable[[Context], None], program: str
) -> None:
    def blocked(starting: tuple[str, ...], text: str) -> None:
        quarantine = application.quarantine
        remedies = () if quarantine is None else quarantine.remedies(starting)
        _say(program, "; ".join([text, *remedies, application.rescue]))
        leave(1)

    await boot(
        root,
        application.rows,
        home=application.home,
        environment=application.environment,
        entry_points=application.entry_points,
        prepare=prepare,
        hint=application.hint,
        quarantine=application.quarantine,
        store=application.store,
        activation_timeout_ms=application.activation_timeout_ms,
        blocked=blocked,
    )
    if application.recompose is None or not application.live_files or not alive(root):
        return
    try:
        watch_layers(root, files=application.live_files, recompose=application.recompose)
    except Exception as error:  # noqa: BLE001 - containment: a plugin may refuse whatever is mounted
        _say(program, f"edits of {', '.join(map(str, application.live_files))} wait: {error!r}")


def _check_application(
    root: Context, application: Application, shutdown: Shutdown, program: str
) -> None:
    """Say so when nothing of the tree reads the command line or ends the process."""
    if not alive(root):
        return
    asked = {
        name
        for runtime in root.registry.values()
        for fiber in runtime.fibers
        for name in fiber.inject
    }
    if application.args and CMDLINE.name not in asked:
        _say(program, f"no row of this profile takes arguments, got {application.args[0]!r}")
        shutdown.request(1)
    elif not asked & {CMDLINE.name, APP_EXIT.name}:
        _say(program, "no row of this profile is an application: it runs until it is stopped")


def _grace_s(application: Application) -> float:
    stuck = application.quarantine is not None and application.quarantine.stuck
    return STUCK_GRACE_S if stuck else SHUTDOWN_GRACE_S


def _tell(program: str, application: Application) -> None:
    if application.quarantine is not None:
        for row in application.quarantine.rows:
            _say(program, str(row))


def _say(program: str, text: str) -> None:
    # Somebody may have closed stderr, some plugin put something else in its place: what cannot be
    # said is no reason to fail.
    streams: tuple[Any, ...] = (sys.stderr, sys.__stderr__)
    for stream in streams:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.write(f"{program}: {text}\n")
            stream.flush()
            return


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
