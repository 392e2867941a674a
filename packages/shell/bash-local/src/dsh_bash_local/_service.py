"""Commands in bash on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final

from dsh_cordis import AbortSignal, Context, Finding
from dsh_shell import Shell, ShellError, ShellRequest, ShellResult, ShellSpec, StreamText
from dsh_subprocess import (
    SUBPROCESS,
    Collect,
    CollectedOutput,
    ProcessExit,
    ProcessHandle,
    SpawnSpec,
)
from dsh_timeout import clamp_timeout, deadline, timeout_of

from ._config import BashConfig

TIMEOUT_CODE: Final = "BASH_TIMEOUT"

# Nobody sits at a terminal: no colour, no pager, no prompt, no editor, and no startup file.
_QUIET_ENV: Final[dict[str, str | None]] = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_EDITOR": None,
    "EDITOR": None,
    "VISUAL": None,
    "BASH_ENV": None,
}

_STRAGGLER_MS: Final = 50
"""How long what ends together with the command may take before it counts as left running."""


class BashLocal(Shell):
    """A fresh `bash -c` for each command: no startup files, no state, no terminal."""

    inject = (SUBPROCESS,)
    Config = BashConfig
    name = "dsh-bash-local"

    def __init__(self, ctx: Context, config: BashConfig) -> None:
        super().__init__(ctx, config)
        self._config = config

    def diagnose(self) -> Iterable[Finding]:
        """That commands have the user's own rights."""
        yield Finding("warning", "commands", "run without a sandbox, with your own rights")

    @property
    def default_timeout_ms(self) -> float:
        return min(self._config.timeout_ms, self._config.max_timeout_ms)

    @property
    def max_timeout_ms(self) -> float:
        return self._config.max_timeout_ms

    def resolve(self, request: ShellRequest) -> ShellSpec:
        if not request.command.strip():
            raise ShellError("the command is blank; give one to run", code="INVALID_SHELL_REQUEST")
        if "\0" in request.command:
            raise ShellError(
                "the command holds a NUL character, which no program can receive",
                code="INVALID_SHELL_REQUEST",
            )
        config = self._config
        return ShellSpec(
            command=request.command,
            workdir=_absolute(config.cwd, request.workdir),
            timeout_ms=clamp_timeout(
                request.timeout_ms,
                default_ms=config.timeout_ms,
                max_ms=config.max_timeout_ms,
                name="timeoutMs",
            ),
            signal=request.signal,
            stdin=request.stdin,
            env={**_QUIET_ENV, **request.env, **request.dsh_env},
        )

    async def run(self, spec: ShellSpec) -> ShellResult:
        if spec.signal is not None and spec.signal.aborted:
            nothing = StreamText("", truncated=False, spill_path=None)
            return ShellResult(
                exit_code=None,
                signal=None,
                timed_out=False,
                aborted=True,
                timeout_ms=spec.timeout_ms,
                stdout=nothing,
                stderr=nothing,
                left_running=False,
            )
        with ExitStack() as limit:
            timer = limit.enter_context(deadline(None, spec.timeout_ms, TIMEOUT_CODE))
            with AbortSignal.any(spec.signal, timer) as signal:
                process = self.own[SUBPROCESS].spawn(self._spawn_spec(spec, signal))
                try:
                    await process.exited()
                    # The limit is on the command, not on what it left running in the background.
                    limit.close()
                    ended = await process.wait()
                    if signal.aborted:
                        # The tree was told to end; what ignores SIGTERM is gone after the grace.
                        await process.wait_for_exit()
                    return await _result(spec, signal, process, ended)
                except BaseException:  # the caller was cancelled: nobody waits for the command
                    process.terminate()
                    raise

    def _spawn_spec(self, spec: ShellSpec, signal: AbortSignal) -> SpawnSpec:
        config = self._config
        output = Collect(max_bytes=config.max_output_bytes, spill_max_bytes=config.max_spill_bytes)
        return SpawnSpec(
            argv=("bash", "--norc", "-c", spec.command),
            cwd=spec.workdir,
            stdin="ignore" if spec.stdin is None else spec.stdin,
            stdout=output,
            stderr=output,
            grace_ms=config.grace_ms,
            signal=signal,
            env=spec.env,
        )


def _absolute(base: str, workdir: str | None) -> str:
    # Not normalized: `link/..` is for the system to resolve.
    path = os.path.join(base, workdir) if workdir else base
    if os.path.isabs(path):
        return path  # and a harness whose own directory was removed still runs commands elsewhere
    return os.path.join(os.getcwd(), path) if path else os.getcwd()


async def _result(
    spec: ShellSpec, signal: AbortSignal, process: ProcessHandle, ended: ProcessExit
) -> ShellResult:
    timed_out = timeout_of(signal, TIMEOUT_CODE) is not None
    aborted = signal.aborted and not timed_out
    return ShellResult(
        exit_code=ended.exit_code,
        signal=ended.signal,
        timed_out=timed_out,
        aborted=aborted,
        timeout_ms=spec.timeout_ms,
        stdout=_text(process.collected_stdout),
        stderr=_text(process.collected_stderr),
        left_running=await _left_running(process),
    )


async def _left_running(process: ProcessHandle) -> bool:
    if not process.tree_alive:
        return False
    with deadline(None, _STRAGGLER_MS, TIMEOUT_CODE) as signal:
        return not await process.wait_for_exit(signal)


def _text(output: CollectedOutput | None) -> StreamText:
    if output is None:
        return StreamText("", truncated=False, spill_path=None)
    read = output.read_from(0)
    return StreamText(read.text, truncated=read.lossy, spill_path=read.spill_path)
