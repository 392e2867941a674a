"""The plugin: listens for failed requests of every agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsh_agent import AGENT_REQUEST_ERROR
from dsh_cordis import NoConfig

from ._recovery import Recovery

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer


class LlmRetry:
    """Retries failed requests while it is mounted; the policies are the providers' own."""

    name = "dsh-llm-retry"
    Config = NoConfig

    @staticmethod
    def apply(ctx: Context, config: NoConfig) -> Iterator[Disposer]:  # noqa: ARG004 - the plugin protocol
        """Listen; at unload the listener goes first, then waits are ended and waited for."""
        recovery = Recovery()
        yield recovery.dispose
        yield ctx.on(AGENT_REQUEST_ERROR, recovery.on_request_error)
