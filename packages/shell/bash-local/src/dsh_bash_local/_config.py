"""Configuration of the local bash."""

from __future__ import annotations

from typing import Annotated

import msgspec
from dsh_subprocess import MAX_TIMER_MS
from msgspec import Meta


class BashConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How commands run."""

    cwd: Annotated[
        str,
        Meta(
            description="Directory of commands that name none, and what relative ones start from."
            " Empty: the process's own."
        ),
    ] = ""
    timeout_ms: Annotated[
        float, Meta(gt=0, le=MAX_TIMER_MS, description="Limit of commands that name none.")
    ] = 120_000
    max_timeout_ms: Annotated[
        float, Meta(gt=0, le=MAX_TIMER_MS, description="Longer limits are cut to this.")
    ] = 600_000
    max_output_bytes: Annotated[int, Meta(gt=0, description="Kept of the end of each stream.")] = (
        64_000
    )
    max_spill_bytes: Annotated[
        int,
        Meta(gt=0, description="Output up to this length is also kept whole, in a file."),
    ] = 67_108_864
    grace_ms: Annotated[
        float,
        Meta(
            gt=0,
            le=MAX_TIMER_MS,
            description="From SIGTERM to SIGKILL, and how long a background process that holds the"
            " output delays the result.",
        ),
    ] = 3_000
