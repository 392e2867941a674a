"""A command to run, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dsh_cordis import AbortSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRequest:
    """What a caller wants; `Shell.resolve` fills and bounds the rest."""

    command: str
    workdir: str | None = None
    """Absolute path; None: the executor's default."""
    timeout_ms: float | None = None
    """None: the executor's default. Capped at its maximum."""
    signal: AbortSignal | None = None
    stdin: bytes | None = None
    """None: the command reads end of file."""
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None], repr=False)
    """On top of the scrubbed environment; None removes a name. May hold secrets."""
    dsh_env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The harness's own `DSH_*` variables; they win over `env`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSpec:
    """A command with every choice made."""

    command: str
    workdir: str
    timeout_ms: float
    signal: AbortSignal | None
    stdin: bytes | None
    env: Mapping[str, str | None] = field(repr=False)


@dataclass(frozen=True, slots=True)
class StreamText:
    """The kept tail of an output stream."""

    text: str
    truncated: bool
    """Whether output before `text` was dropped from memory."""
    spill_path: str | None
    """A file with all of the output, if `truncated` and the file's cap allowed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """How a command ended. A non-zero exit, a timeout and an abort are results, not errors."""

    exit_code: int | None
    signal: str | None
    timed_out: bool
    aborted: bool
    """At most one of `timed_out` and `aborted` is set; a command that killed itself has neither."""
    timeout_ms: float
    stdout: StreamText
    stderr: StreamText
    left_running: bool
    """Whether processes that the command started were still running when it returned."""
