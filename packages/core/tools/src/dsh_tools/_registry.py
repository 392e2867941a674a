"""The scoped registry of tools and the way to run one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_cordis import Disposer, Service
from dsh_system_prompt import SYSTEM_PROMPT

from ._types import TOOLS

if TYPE_CHECKING:
    from dsh_llm import ToolSchema

    from ._definition import ToolDefinition
    from ._pipeline import ToolRun
    from ._types import ExecutionMode, ToolCallRequest, ToolOutcome


class ToolRegistry(Service):
    """Tools by name and scope. A registration lands in the caller's scope and unwinds with it."""

    provides = TOOLS
    inject = (SYSTEM_PROMPT,)

    def register(self, definition: ToolDefinition) -> Disposer:
        """Offer a tool. Raises `ToolError` `DUPLICATE_TOOL` for a name of the same scope."""
        raise NotImplementedError

    def get(self, name: str, scope: object | None = None) -> ToolDefinition | None:
        """The tool that `scope` sees under `name`."""
        raise NotImplementedError

    def schemas(self, scope: object | None = None) -> tuple[ToolSchema, ...]:
        """What a model in `scope` is offered, in order of registration."""
        raise NotImplementedError

    def execution_mode(self, request: ToolCallRequest) -> ExecutionMode:
        """Whether the call may overlap others; exclusive for unknown tools and bad arguments."""
        raise NotImplementedError

    def begin(self, request: ToolCallRequest) -> ToolRun:
        """Take a call in: convert and freeze its arguments. Never raises for a bad call.

        The caller then awaits `prepare`, `dispatch` (if `prepare` said so) and `finalize`.
        """
        raise NotImplementedError

    async def execute(self, request: ToolCallRequest) -> ToolOutcome:
        """Run a call through all stages."""
        raise NotImplementedError
