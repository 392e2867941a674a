"""What this package raises."""

from __future__ import annotations

from typing import Final

from dsh_cordis import CordisError

_MAX_SHOWN: Final = 10


class ToolError(CordisError):
    """A tool failed, or was defined or used wrongly. Bodies raise it for expected failures.

    The model reads `Error: <message>`; class name and code are logged beside it.
    """

    def __init__(self, message: str, *, code: str = "TOOL_FAILED") -> None:
        super().__init__(message, code=code)


class ToolArgsError(ToolError):
    """Arguments do not fit the tool's parameters; nothing was run."""

    violations: tuple[str, ...]
    """One sentence for each, with path, what was wanted and what came."""

    def __init__(self, violations: tuple[str, ...]) -> None:
        super().__init__(f"invalid arguments: {_joined(violations)}", code="INVALID_ARGS")
        self.violations = violations


class ToolOutputError(ToolError):
    """What a tool returned does not fit its own output type."""

    violations: tuple[str, ...]

    def __init__(self, violations: tuple[str, ...]) -> None:
        message = f"the tool returned an invalid value: {_joined(violations)}"
        super().__init__(message, code="INVALID_TOOL_OUTPUT")
        self.violations = violations


class ToolSchemaError(ToolError):
    """A type or JSON schema says something that tools cannot offer to every model."""

    violations: tuple[str, ...]

    def __init__(self, violations: tuple[str, ...]) -> None:
        super().__init__(f"unsupported schema: {_joined(violations)}", code="UNSUPPORTED_SCHEMA")
        self.violations = violations


def _joined(violations: tuple[str, ...]) -> str:
    shown = "; ".join(violations[:_MAX_SHOWN])
    more = len(violations) - _MAX_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown
