"""One child process: its streams, its exit, the end of its tree."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from dsh_cordis import AbortSignal
from dsh_subprocess import Collect, ProcessExit, ProcessHandle, SpawnSpec, SubprocessError

from ._collector import SpillDirectory, TailCollector
from ._exit import reap
from ._streams import Drain, Feed, RawStreams
from ._tree import ProcessTree

_FIRST_POLL_S: Final = 0.001
_ENDING_POLL_S: Final = 0.015
_LINGERING_POLL_S: Final = 0.25
_LAST_REAP_S: Final = 0.5


class LocalProcess(ProcessHandle):
    """A child in a session of its own, so that it has no terminal to ask."""

    def __init__(self, spec: SpawnSpec, env: dict[str, str], directory: SpillDirectory) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._ended: ProcessExit | None = None
        self._exited = asyncio.Event()
        self._settled = asyncio.Event()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._ending: asyncio.Future[None] = loop.create_future()
        self._released: asyncio.Future[None] = loop.create_future()
        self._kill_timer: asyncio.TimerHandle | None = None
        self._killed = False
        self._tree: ProcessTree | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._drains: list[Drain] = []
        self._feed: Feed | None = None
        self._raw: RawStreams | None = None
        self._opening = asyncio.Lock()
        self._forget_signal: Callable[[], None] | None = None
        self._failure: SubprocessError | None = None
        self.pid = -1
        self.stdin = self.stdout = self.stderr = None
        self.collected_stdout = out = _collector(spec.stdout, directory)
        self.collected_stderr = err = _collector(spec.stderr, directory)
        try:
            popen = _start(spec, env)
        except (OSError, ValueError) as error:
            self._fail(_spawn_failure(spec, error))
            return
        self._popen = popen
        self.pid = popen.pid
        self._tree = ProcessTree(popen.pid)
        raw: dict[str, IO[bytes]] = {}
        for name, pipe, collector in (("stdout", popen.stdout, out), ("stderr", popen.stderr, err)):
            if pipe is not None and collector is not None:
                self._drains.append(Drain(loop, pipe, collector))
            elif pipe is not None:
                raw[name] = pipe
        if popen.stdin is not None and isinstance(spec.stdin, bytes):
            self._feed = Feed(loop, popen.stdin, spec.stdin)
        elif popen.stdin is not None:
            raw["stdin"] = popen.stdin
        self._raw = RawStreams(loop, raw) if raw else None
        if spec.signal is not None:
            self._forget_signal = spec.signal.on_abort(self.terminate)

    # -- the service's side ------------------------------------------------------------------

    async def supervise(self) -> None:
        """Follow the child until its whole tree is gone and its pipes are closed.

        The service runs this as a task. Cancelling it kills the tree at once.
        """
        popen, tree = self._popen, self._tree
        if popen is None or tree is None:
            return
        try:
            self._ended = await reap(popen)
            tree.leader_reaped()
            tree.alive()  # at once: from here on the number may be given to a stranger
            self._exited.set()
            await self._settle_streams()
            self._settled.set()
            await self._tree_end(tree)
            self._gone.set_result(None)
            await self._pipes_end()
        finally:
            self.abandon()

    def release(self) -> None:
        """End the tree, and close what pipes are open after it."""
        self.terminate()
        if not self._released.done():
            self._released.set_result(None)

    def kill_now(self) -> None:
        """SIGKILL the tree at once; for the exit of the host."""
        if self._tree is not None:
            self._tree.send(signal.SIGKILL)

    def abandon(self) -> None:
        """Leave nothing behind: kill what lives, close what is open. Again: nothing."""
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if self._forget_signal is not None:
            self._forget_signal()
        popen = self._popen
        if popen is None:
            return
        if not self._gone.done():
            self.kill_now()
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(_LAST_REAP_S)
        for stream in (*self._drains, self._feed, self._raw):
            if stream is not None:
                stream.stop()
        if not self._gone.done():
            lost = f"process {self.pid} was killed because its owner was stopped by force"
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._fail(SubprocessError(lost, code="PROCESS_LOST"))

    # -- ProcessHandle -----------------------------------------------------------------------

    async def opened(self) -> None:
        if self._failure is not None:
            raise self._failure
        raw = self._raw
        if raw is None:
            return
        async with self._opening:
            self.stdin = self.stdin or await raw.writer("stdin")
            self.stdout = self.stdout or await raw.reader("stdout")
            self.stderr = self.stderr or await raw.reader("stderr")

    async def exited(self) -> ProcessExit:
        return await self._outcome(self._exited)

    async def wait(self) -> ProcessExit:
        return await self._outcome(self._settled)

    def terminate(self) -> None:
        if self._ending.done() or self._tree is None or self._gone.done():
            return
        self._ending.set_result(None)
        self._tree.send(signal.SIGTERM)
        # Kept when the direct child ends: a helper that ignores SIGTERM may live on.
        self._kill_timer = self._loop.call_later(self._spec.grace_ms / 1000, self._kill)

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
        return self._tree is not None and self._tree.alive()

    # -- parts -------------------------------------------------------------------------------

    async def _outcome(self, moment: asyncio.Event) -> ProcessExit:
        await moment.wait()
        if self._ended is not None:
            return self._ended
        assert self._failure is not None
        raise self._failure

    def _fail(self, failure: SubprocessError) -> None:
        """Every wait ends with this."""
        self._failure = failure
        self._exited.set()
        self._settled.set()
        self._gone.set_result(None)

    async def _settle_streams(self) -> None:
        """Let collected pipes end by themselves for the grace.

        A descendant that inherited a pipe may hold it for as long as it likes.
        """
        open_pipes = [drain.ended for drain in self._drains if not drain.ended.done()]
        if open_pipes:
            await asyncio.wait(open_pipes, timeout=self._spec.grace_ms / 1000)
        if self._feed is not None:
            self._feed.stop()
        for drain in self._drains:
            await drain.settle()

    async def _tree_end(self, tree: ProcessTree) -> None:
        delay = _FIRST_POLL_S
        while tree.alive():  # nothing announces that a session emptied
            if self._killed:
                tree.send(signal.SIGKILL)  # what forked while the others were being killed
            if self._ending.done():
                await asyncio.sleep(min(delay, _ENDING_POLL_S))
            else:
                await asyncio.wait([self._ending], timeout=delay)
            delay = min(2 * delay, _LINGERING_POLL_S)

    async def _pipes_end(self) -> None:
        """The caller may still read what the child left in its raw pipes, and a process that left
        the tree may hold collected ones: until the unload."""
        pipes = [drain.ended for drain in self._drains]
        if self._raw is not None:
            pipes += self._raw.lost
        while not self._released.done() and (unfinished := [p for p in pipes if not p.done()]):
            await asyncio.wait([*unfinished, self._released], return_when=asyncio.FIRST_COMPLETED)

    def _kill(self) -> None:
        self._killed = True
        self.kill_now()


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
