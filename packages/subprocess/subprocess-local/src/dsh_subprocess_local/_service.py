"""Processes of this machine."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from dsh_cordis import AbortSignal, Context, Disposer, NoConfig
from dsh_subprocess import (
    ProcessHandle,
    SpawnSpec,
    Subprocess,
    SubprocessError,
    child_environment,
)

from ._collector import SpillDirectory
from ._process import LocalProcess


class LocalSubprocess(Subprocess):
    """Owns every process it started until the whole tree of it is gone."""

    Config = NoConfig
    name = "dsh-subprocess-local"

    def __init__(self, ctx: Context, config: NoConfig) -> None:
        super().__init__(ctx, config)
        self._alive: set[LocalProcess] = set()
        self._directory = SpillDirectory()

    async def start(self) -> AsyncIterator[Disposer]:
        # The last resort of a host that exits without disposal; it cannot run on SIGKILL.
        atexit.register(self._kill_all)
        yield lambda: atexit.unregister(self._kill_all)

    async def resolve_executable(
        self,
        command: str,
        *,
        env: Mapping[str, str | None] | None = None,
        signal: AbortSignal | None = None,
    ) -> str:
        if signal is not None:
            signal.throw_if_aborted()
        if os.sep in command and not Path(command).is_absolute():
            raise SubprocessError(
                f"{command!r} is relative; give a bare name or an absolute path",
                code="EXECUTABLE_NOT_FOUND",
            )
        search = child_environment(os.environ, env or {}).get("PATH", os.defpath)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, _which, command, search)
        if signal is not None:
            signal.throw_if_aborted()
        if found is None:
            raise SubprocessError(
                f"no executable {command!r}; looked in PATH={search}", code="EXECUTABLE_NOT_FOUND"
            )
        return found

    def spawn(self, spec: SpawnSpec) -> ProcessHandle:
        if spec.signal is not None:
            spec.signal.throw_if_aborted()
        process = LocalProcess(spec, child_environment(os.environ, spec.env), self._directory)
        if process.pid < 0:
            return process
        self._alive.add(process)
        name = f"process {process.pid}"
        try:
            # Unload ends the tree and waits for it; cancelling would lose track of it.
            self.own.spawn(self._supervise, process, stop=process.release, name=name)
        except BaseException:  # this service is being unloaded: nobody would own the process
            process.abandon()
            self._alive.discard(process)
            raise
        return process

    async def _supervise(self, process: LocalProcess) -> None:
        try:
            await process.supervise()
        finally:
            self._alive.discard(process)

    def _kill_all(self) -> None:
        for process in tuple(self._alive):
            process.kill_now()


def _which(command: str, search: str) -> str | None:
    import shutil  # brings the compression modules, and a boot looks for no program

    found = shutil.which(command, path=search)
    return None if found is None else os.path.abspath(found)  # PATH may hold relative directories
