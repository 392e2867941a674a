"""The plugin: one route, one adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from dsh_launch_environment import launch_environment_of
from dsh_llm import LLM

from ._adapter import DeepSeekAdapter
from ._config import BASE_URL_ENV, PROVIDER, DeepSeekConfig, resolve_profile

if TYPE_CHECKING:
    from dsh_cordis import Context, Disposer


class DeepSeekProvider:
    """Serves the route `deepseek-official` while it is mounted."""

    name = "dsh-llm-deepseek"
    inject = (LLM,)
    Config = DeepSeekConfig

    @staticmethod
    async def apply(ctx: Context, config: DeepSeekConfig) -> AsyncIterator[Disposer]:
        """Register the adapter; at unload the route goes first, then the connections."""

        def variable(name: str) -> str | None:
            return launch_environment_of(ctx).get(name)

        adapter = DeepSeekAdapter(resolve_profile(config, variable(BASE_URL_ENV)), variable)
        yield adapter.dispose
        yield ctx[LLM].register_adapter((PROVIDER,), adapter)
