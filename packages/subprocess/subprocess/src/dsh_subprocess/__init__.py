"""Child processes: the definition of the service."""

from __future__ import annotations

from ._environment import child_environment, scrubbed_parent_env
from ._errors import SubprocessError
from ._service import SUBPROCESS, CollectedOutput, ProcessHandle, Subprocess
from ._spec import MAX_TIMER_MS, Collect, OutputRead, ProcessExit, SpawnSpec

__all__ = (
    "MAX_TIMER_MS",
    "SUBPROCESS",
    "Collect",
    "CollectedOutput",
    "OutputRead",
    "ProcessExit",
    "ProcessHandle",
    "SpawnSpec",
    "Subprocess",
    "SubprocessError",
    "child_environment",
    "scrubbed_parent_env",
)
