"""Which file a call means, and on whose behalf."""

from __future__ import annotations

from dsh_cordis import Context
from dsh_fs import FS, FileTarget
from dsh_tools import ToolExecution


async def resolve(ctx: Context, path: str, execution: ToolExecution) -> FileTarget:
    """`path` relative to the directory of the calling agent's session."""
    agent = execution.agent
    cwd = agent.session.header.cwd if agent is not None else None
    return await ctx[FS].resolve(
        path, cwd=cwd if isinstance(cwd, str) else None, signal=execution.signal
    )


def owner_of(execution: ToolExecution) -> object | None:
    """Whose knowledge of files counts: the session of the calling agent."""
    return execution.agent.session if execution.agent is not None else None
