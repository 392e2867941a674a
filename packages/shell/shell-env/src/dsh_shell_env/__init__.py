"""The DSH_* variables that shell commands see."""

from __future__ import annotations

from ._service import SHELL_ENV, ShellEnv, ShellEnvConfig, ShellEnvError, VariableInfo

__all__ = ("SHELL_ENV", "ShellEnv", "ShellEnvConfig", "ShellEnvError", "VariableInfo")
