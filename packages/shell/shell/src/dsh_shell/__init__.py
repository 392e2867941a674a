"""Shell commands: the definition of the service."""

from __future__ import annotations

from ._exit_status import ExitStatus, parse_exit_status
from ._records import ShellRequest, ShellResult, ShellSpec, StreamText
from ._service import SHELL, Shell, ShellError

__all__ = (
    "SHELL",
    "ExitStatus",
    "Shell",
    "ShellError",
    "ShellRequest",
    "ShellResult",
    "ShellSpec",
    "StreamText",
    "parse_exit_status",
)
