"""One program run without a shell, with its output or its failure."""

from __future__ import annotations

from ._errors import NativeCommandError
from ._run import CommandOutput, run_native_command

__all__ = ("CommandOutput", "NativeCommandError", "run_native_command")
