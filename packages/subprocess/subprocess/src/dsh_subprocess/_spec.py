"""What to start, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dsh_cordis import AbortSignal

from ._errors import SubprocessError

MAX_TIMER_MS = 2_147_483_647
"""Longest delay that any timer of the product accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """Keep the last `max_bytes` of a stream in memory, and up to `spill_max_bytes` of all of it
    in a file once memory overflows. None: no file."""

    max_bytes: int
    spill_max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raises `SubprocessError` with code `INVALID_SPAWN_SPEC`."""
        for name, size in (
            ("max_bytes", self.max_bytes),
            ("spill_max_bytes", self.spill_max_bytes),
        ):
            if size is not None and size <= 0:
                raise SubprocessError(
                    f"{name} must be positive, got {size!r}", code="INVALID_SPAWN_SPEC"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnSpec:
    """A program to run. Nothing is parsed by a shell and nothing has a hidden default."""

    argv: tuple[str, ...]
    cwd: str
    stdin: Literal["ignore", "pipe"] | bytes
    """`bytes` are written, then the stream is closed; a child that does not read is no error."""
    stdout: Literal["pipe", "inherit"] | Collect
    stderr: Literal["pipe", "inherit"] | Collect
    grace_ms: float
    """From SIGTERM to SIGKILL, and how long collected pipes may stay open after the exit."""
    signal: AbortSignal | None = None
    """Abort starts termination."""
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None], repr=False)
    """On top of the scrubbed parent environment; None removes a name. May hold secrets."""

    def __post_init__(self) -> None:
        """Raises `SubprocessError` with code `INVALID_SPAWN_SPEC`."""
        if not self.argv or not self.argv[0]:
            raise SubprocessError("argv must name a program", code="INVALID_SPAWN_SPEC")
        if not (math.isfinite(self.grace_ms) and 0 < self.grace_ms <= MAX_TIMER_MS):
            raise SubprocessError(
                f"grace_ms must be positive and at most {MAX_TIMER_MS}, got {self.grace_ms!r}",
                code="INVALID_SPAWN_SPEC",
            )


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How the direct child ended: exactly one of the two is set."""

    exit_code: int | None
    signal: str | None
    """Such as `SIGKILL`."""


@dataclass(frozen=True, slots=True)
class OutputRead:
    """Part of a collected stream as text.

    What is no UTF-8, and NUL, is replaced by U+FFFD. No character is cut at either end.
    """

    text: str
    next_offset: int
    """Byte offset in the whole stream where the next read goes on: before a character of which
    only the beginning has come, unless the stream ended in it."""
    lossy: bool
    """Whether output between the asked offset and this text is gone from memory."""
    spill_path: str | None
    """A file with the whole stream, if memory did not hold it and the file's cap did."""
