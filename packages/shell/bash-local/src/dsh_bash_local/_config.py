"""Configuration of the local bash."""

from __future__ import annotations

from typing import Annotated

import msgspec
from dsh_subprocess import MAX_TIMER_MS
from msgspec import Meta


class BashConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How commands run."""

    cwd: Annotated[
        str, Meta(description="Directory of commands that name none; empty: the process's own.")
    ] = ""
    timeout_ms: Annotated[
        float, Meta(gt=0, le=MAX_TIMER_MS, description="Limit of commands that name none, in ms.")
    ] = 120_000
    max_timeout_ms: Annotated[
        float, Meta(gt=0, le=MAX_TIMER_MS, description="Longest limit a command may ask, in ms.")
    ] = 600_000
    max_output_bytes: Annotated[
        int, Meta(gt=0, description="Bytes kept of the end of each output stream.")
    ] = 64_000
    max_spill_bytes: Annotated[
        int,
        Meta(gt=0, description="Longest output that is also kept whole, in a file, in bytes."),
    ] = 67_108_864
    grace_ms: Annotated[
        float,
        Meta(gt=0, le=MAX_TIMER_MS, description="From SIGTERM to SIGKILL, in ms."),
    ] = 3_000
