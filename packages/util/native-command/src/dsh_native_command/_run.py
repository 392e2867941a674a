"""Starting one program, collecting what it says, and ending it."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import anyio
import msgspec
from dsh_cordis import AbortSignal

from ._environment import minimal_environment
from ._errors import NativeCommandError

_STDOUT: Final = 1
_DRAIN_S: Final = 0.5
"""How long the streams may stay open after the program ended: what it left in the background holds
them for as long as it likes."""


class CommandOutput(msgspec.Struct, frozen=True):
    """What a successful command said; bytes that are no UTF-8 are U+FFFD."""

    stdout: str
    stderr: str


async def run_native_command(
    command: str,
    arguments: Sequence[str] = (),
    signal: AbortSignal | None = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    max_output_bytes: int = 1024 * 1024,
) -> CommandOutput:
    """Run `command`, a bare name or a path, with exactly these arguments and no shell.

    Its standard input is empty. `env` is its whole environment; None gives it the few variables
    that any program needs (`PATH`, `HOME`, the language, the display) and nothing else. An abort of
    `signal`, or cancelling the caller, kills its process group.

    Raises `NativeCommandError`: `COMMAND_FAILED` unless it exits with 0, `COMMAND_NOT_FOUND`,
    `COMMAND_NOT_STARTED`, and `COMMAND_OUTPUT_LIMIT` if a stream exceeds `max_output_bytes`. Raises
    the reason of `signal` once that is aborted.
    """
    if signal is not None:
        signal.throw_if_aborted()
    loop = asyncio.get_running_loop()
    run = _Run(loop, max_output_bytes)
    try:
        # A start that is cut short would leave a process that nobody waits for.
        with anyio.CancelScope(shield=True):
            await loop.subprocess_exec(
                lambda: run,
                *(command, *arguments),
                stdin=subprocess.DEVNULL,
                cwd=cwd,
                env=minimal_environment(os.environ) if env is None else dict(env),
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise _not_started(command, cwd, error) from error
    forget = signal.on_abort(run.stop) if signal is not None else None
    try:
        await run.end()
    finally:
        if forget is not None:
            forget()
        run.transport.close()
    if signal is not None:
        signal.throw_if_aborted()
    return _output(command, run)


class _Run(asyncio.SubprocessProtocol):
    """The streams and the end of one process."""

    transport: asyncio.SubprocessTransport
    """Set once it is started."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_output_bytes: int) -> None:
        self._max_output_bytes = max_output_bytes
        self._stopped: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.overflowed = False

    def stop(self) -> None:
        """Let `end` kill the process group."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def end(self) -> None:
        """Until the process ended and its streams are read, or it was stopped."""
        try:
            await _first(self._exited, self._stopped)
            if self._exited.done():
                await _first(self._closed, self._stopped, timeout_s=_DRAIN_S)
        except asyncio.CancelledError:
            self.stop()
            raise
        finally:
            if self._stopped.done():
                # The whole group, also when its leader is gone: that is what still holds a stream.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.transport.get_pid(), signals.SIGKILL)
                with anyio.CancelScope(shield=True):
                    await _first(self._exited)

    # -- what the event loop calls --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        stream = self.stdout if fd == _STDOUT else self.stderr
        room = self._max_output_bytes - len(stream)
        stream += data[:room]
        if len(data) > room:
            self.overflowed = True
            self.stop()

    def process_exited(self) -> None:
        self._exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        self._closed.set_result(None)


async def _first(*futures: asyncio.Future[None], timeout_s: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


def _output(command: str, run: _Run) -> CommandOutput:
    exit_code = cast("int", run.transport.get_returncode())
    stdout = run.stdout.decode("utf-8", "replace")
    stderr = run.stderr.decode("utf-8", "replace")
    if not run.overflowed and exit_code == 0:
        return CommandOutput(stdout, stderr)
    if run.overflowed:
        code, said = "COMMAND_OUTPUT_LIMIT", "wrote more than it may and was killed"
    elif exit_code < 0:
        code, said = "COMMAND_FAILED", f"was ended by signal {-exit_code}"
    else:
        code, said = "COMMAND_FAILED", f"failed with exit status {exit_code}"
    raise NativeCommandError(
        f"{command!r} {said}", code=code, exit_code=exit_code, stdout=stdout, stderr=stderr
    )


def _not_started(
    command: str, cwd: str | os.PathLike[str] | None, error: OSError | ValueError
) -> NativeCommandError:
    if isinstance(error, FileNotFoundError) and (cwd is None or Path(cwd).is_dir()):
        return NativeCommandError(
            f"there is no command {command!r}; install it or give its path",
            code="COMMAND_NOT_FOUND",
        )
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    where = "" if cwd is None else f" in {os.fspath(cwd)!r}"
    return NativeCommandError(
        f"{command!r} could not be started{where}: {why}", code="COMMAND_NOT_STARTED"
    )
