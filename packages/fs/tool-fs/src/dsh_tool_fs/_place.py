"""Which file a call means, and on whose behalf."""

from __future__ import annotations

from typing import Final

from dsh_cordis import Context
from dsh_fs import FS, FileTarget
from dsh_tools import ToolExecution
from msgspec import UNSET, Meta

PATH: Final = Meta(min_length=1, description="Absolute, or relative to the working directory.")


async def resolve(ctx: Context, path: str, execution: ToolExecution) -> FileTarget:
    """`path` relative to the directory of the calling agent's session."""
    cwd = None if execution.agent is None else execution.agent.session.header.cwd
    return await ctx[FS].resolve(path, cwd=None if cwd is UNSET else cwd, signal=execution.signal)


def owner_of(execution: ToolExecution) -> object | None:
    """Whose knowledge of files counts: the session of the calling agent."""
    return None if execution.agent is None else execution.agent.session
