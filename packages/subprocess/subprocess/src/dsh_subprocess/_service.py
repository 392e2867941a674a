"""The service: start processes, own them until their whole tree is gone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping

from dsh_cordis import AbortSignal, Service, ServiceKey

from ._spec import OutputRead, ProcessExit, SpawnSpec

SUBPROCESS = ServiceKey["Subprocess"]("subprocess")


class CollectedOutput(ABC):
    """The kept part of a stream. Reading consumes nothing and works after the exit."""

    @abstractmethod
    def read_from(self, offset: int) -> OutputRead:
        """What is in memory from byte `offset` of the whole stream on.

        An offset older than the window gives the whole window with `lossy`.
        """


class ProcessHandle(ABC):
    """One started process and everything it started."""

    pid: int
    """-1 if the spawn failed."""
    stdin: StreamWriter | None
    stdout: StreamReader | None
    stderr: StreamReader | None
    """Set for streams asked as `pipe`, once `opened` was awaited."""
    collected_stdout: CollectedOutput | None
    collected_stderr: CollectedOutput | None

    @abstractmethod
    async def opened(self) -> None:
        """Connects the raw streams. Raises like `wait` if the spawn failed."""

    @abstractmethod
    async def exited(self) -> ProcessExit:
        """How the direct child ended, as soon as it did; output may still be on its way.

        Raises `SubprocessError`: `SPAWN_FAILED` if it never started, `PROCESS_LOST` if its owner
        was stopped by force (the tree was killed then).
        """

    @abstractmethod
    async def wait(self) -> ProcessExit:
        """Like `exited`, after the collected pipes closed or, from the exit on, the grace ran out.

        From here on the collected output does not change; what a process in the background still
        writes is dropped.
        """

    @abstractmethod
    def terminate(self) -> None:
        """SIGTERM to the whole tree, SIGKILL after the grace to what is left. Again: nothing."""

    @abstractmethod
    async def wait_for_exit(self, signal: AbortSignal | None = None) -> bool:
        """True once the whole tree is gone, False if `signal` aborts first."""

    @property
    @abstractmethod
    def tree_alive(self) -> bool:
        """Whether any process of the tree still runs."""


class Subprocess(Service, ABC):
    """Starts processes. One provider for each world of files and programs."""

    provides = SUBPROCESS

    @abstractmethod
    async def resolve_executable(
        self,
        command: str,
        *,
        env: Mapping[str, str | None] | None = None,
        signal: AbortSignal | None = None,
    ) -> str:
        """The absolute path that `command`, a bare name or an absolute path, runs.

        `env` is laid over the scrubbed parent environment, whose PATH counts. Raises
        `SubprocessError` with code `EXECUTABLE_NOT_FOUND`, or the reason of `signal`.
        """

    @abstractmethod
    def spawn(self, spec: SpawnSpec) -> ProcessHandle:
        """Start at once; the provider's unload ends the tree and waits for it.

        A failure to start shows in `wait`. Raises the reason of an aborted `spec.signal`.
        """
