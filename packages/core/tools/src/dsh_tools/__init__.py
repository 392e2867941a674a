"""Tool definitions, the scoped tool registry and the call pipeline."""

from __future__ import annotations

from ._definition import ToolDefinition, define_tool
from ._errors import ToolArgsError, ToolError, ToolOutputError, ToolSchemaError
from ._execution import ToolExecution
from ._function import tool
from ._pipeline import ToolRun
from ._registry import ToolRegistry
from ._types import (
    TOOLS,
    TOOLS_CHANGE,
    TOOLS_EXECUTE,
    TOOLS_POST_EXECUTE,
    TOOLS_PRE_EXECUTE,
    TOOLS_RESULT,
    Accept,
    Allow,
    Ask,
    Block,
    CallToken,
    Deny,
    ExecutionMode,
    PostDecision,
    PreDecision,
    ToolCallRequest,
    ToolExecuted,
    ToolFailure,
    ToolFailureInfo,
    ToolOutcome,
    ToolsChanged,
    ToolSuccess,
)

# More than a dozen: policies, wrappers and tools are all written in these.
__all__ = (
    "TOOLS",
    "TOOLS_CHANGE",
    "TOOLS_EXECUTE",
    "TOOLS_POST_EXECUTE",
    "TOOLS_PRE_EXECUTE",
    "TOOLS_RESULT",
    "Accept",
    "Allow",
    "Ask",
    "Block",
    "CallToken",
    "Deny",
    "ExecutionMode",
    "PostDecision",
    "PreDecision",
    "ToolArgsError",
    "ToolCallRequest",
    "ToolDefinition",
    "ToolError",
    "ToolExecuted",
    "ToolExecution",
    "ToolFailure",
    "ToolFailureInfo",
    "ToolOutcome",
    "ToolOutputError",
    "ToolRegistry",
    "ToolRun",
    "ToolSchemaError",
    "ToolSuccess",
    "ToolsChanged",
    "define_tool",
    "tool",
)
