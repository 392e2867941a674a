"""One child process: its streams, its exit, the end of its tree."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dsh_cordis import AbortSignal
from dsh_subprocess import Collect, ProcessExit, ProcessHandle, SpawnSpec, SubprocessError

from ._collector import SpillDirectory, TailCollector
from ._group import ProcessGroup
from ._streams import Drain, Feed, open_reader, open_writer

_ENDING_POLL_S: Final = 0.015
_LINGERING_POLL_S: Final = 0.25


class LocalProcess(ProcessHandle):
    """A child in a session and process group of its own, so that it has no terminal to ask."""

    def __init__(self, spec: SpawnSpec, env: dict[str, str], directory: SpillDirectory) -> None:
        self._spec = spec
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._terminating = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._leader_reaped = False
        self._group: ProcessGroup | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._drains: list[Drain] = []
        self._feed: Feed | None = None
        self._forget_signal: Callable[[], None] | None = None
        self._failure: SubprocessError | None = None
        self.pid = -1
        self.stdin = self.stdout = self.stderr = None
        self.collected_stdout = out = _collector(spec.stdout, directory)
        self.collected_stderr = err = _collector(spec.stderr, directory)
        try:
            popen = _start(spec, env)
        except (OSError, ValueError) as error:
            self._failure = _spawn_failure(spec, error)
            self._gone.set_result(None)
            return
        self._popen = popen
        self.pid = popen.pid
        self._group = ProcessGroup(popen.pid)
        for pipe, collector in ((popen.stdout, out), (popen.stderr, err)):
            if pipe is not None and collector is not None:
                self._drains.append(Drain(self._loop, pipe, collector))
        if popen.stdin is not None and isinstance(spec.stdin, bytes):
            self._feed = Feed(self._loop, popen.stdin, spec.stdin)
        if spec.signal is not None:
            self._forget_signal = spec.signal.on_abort(self.terminate)

    # -- the service's side ------------------------------------------------------------------

    async def supervise(self) -> None:
        """Follow the child until its whole tree is gone. The service runs this as a task."""
        popen = self._popen
        if popen is None:
            return
        await _wait_until_exited(self._loop, popen)
        code = popen.wait()
        self._leader_reaped = True
        await self._close_streams()
        self._exit.set_result(_exit_of(code))
        while self.tree_alive:  # noqa: ASYNC110 - nothing announces that a group emptied
            await asyncio.sleep(_ENDING_POLL_S if self._terminating else _LINGERING_POLL_S)
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if self._forget_signal is not None:
            self._forget_signal()
        self._gone.set_result(None)

    def kill_now(self) -> None:
        """SIGKILL the tree at once; for the exit of the host."""
        if self._group is not None:
            self._group.send(signal.SIGKILL)

    # -- ProcessHandle -----------------------------------------------------------------------

    async def opened(self) -> None:
        popen, spec = self._popen, self._spec
        if popen is None:
            await self.wait()
            return
        if spec.stdin == "pipe" and self.stdin is None and popen.stdin is not None:
            self.stdin = await open_writer(popen.stdin)
        if spec.stdout == "pipe" and self.stdout is None and popen.stdout is not None:
            self.stdout = await open_reader(popen.stdout)
        if spec.stderr == "pipe" and self.stderr is None and popen.stderr is not None:
            self.stderr = await open_reader(popen.stderr)

    async def wait(self) -> ProcessExit:
        if self._failure is not None:
            raise self._failure
        # asyncio.wait, so that cancelling one waiter leaves the future to the others.
        await asyncio.wait([self._exit])
        return self._exit.result()

    def terminate(self) -> None:
        if self._terminating or self._group is None or self._gone.done():
            return
        self._terminating = True
        self._group.send(signal.SIGTERM)
        # Kept when the direct child ends: a helper that ignores SIGTERM may live on.
        self._kill_timer = self._loop.call_later(
            self._spec.grace_ms / 1000, self._group.send, signal.SIGKILL
        )

    async def wait_for_exit(self, signal: AbortSignal | None = None) -> bool:
        waited: list[asyncio.Future[None]] = [self._gone]
        forget = None
        if signal is not None and not self._gone.done():
            aborted: asyncio.Future[None] = self._loop.create_future()
            forget = signal.on_abort(lambda: aborted.done() or aborted.set_result(None))
            waited.append(aborted)
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if forget is not None:
                forget()
        return self._gone.done()

    @property
    def tree_alive(self) -> bool:
        group = self._group
        return group is not None and group.alive(leader_reaped=self._leader_reaped)

    async def _close_streams(self) -> None:
        """Let collected pipes end by themselves for the grace, then close them.

        A descendant that inherited a pipe may hold it for as long as it likes.
        """
        open_pipes = [drain.ended for drain in self._drains if not drain.ended.done()]
        if open_pipes:
            await asyncio.wait(open_pipes, timeout=self._spec.grace_ms / 1000)
        if self._feed is not None:
            self._feed.close()
        for drain in self._drains:
            await drain.close()


def _collector(stream: object, directory: SpillDirectory) -> TailCollector | None:
    return TailCollector(stream, directory) if isinstance(stream, Collect) else None


def _start(spec: SpawnSpec, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        spec.argv,
        cwd=spec.cwd,
        env=env,
        stdin=subprocess.DEVNULL if spec.stdin == "ignore" else subprocess.PIPE,
        stdout=None if spec.stdout == "inherit" else subprocess.PIPE,
        stderr=None if spec.stderr == "inherit" else subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )


def _spawn_failure(spec: SpawnSpec, error: OSError | ValueError) -> SubprocessError:
    program = spec.argv[0]
    if isinstance(error, FileNotFoundError) and not Path(spec.cwd).is_dir():
        message = f"cannot start {program!r}: the working directory {spec.cwd!r} does not exist"
    else:
        detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"cannot start {program!r} in {spec.cwd!r}: {detail}"
    failure = SubprocessError(message, code="SPAWN_FAILED")
    failure.__cause__ = error
    return failure


async def _wait_until_exited(
    loop: asyncio.AbstractEventLoop, popen: subprocess.Popen[bytes]
) -> None:
    try:
        descriptor = os.pidfd_open(popen.pid)
    except (AttributeError, OSError):  # not Linux, or a kernel that refuses
        await loop.run_in_executor(None, popen.wait)
        return
    exited: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: exited.done() or exited.set_result(None))
    try:
        await exited
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _exit_of(code: int) -> ProcessExit:
    if code >= 0:
        return ProcessExit(code, None)
    with contextlib.suppress(ValueError):
        return ProcessExit(None, signal.Signals(-code).name)
    return ProcessExit(None, f"SIG{-code}")  # real-time signals have no name of their own
