from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from dsh_cordis import AbortSignal, Context
from dsh_llm import (
    LLM,
    Failed,
    Finish,
    GenerateOptions,
    LlmCallConfig,
    LlmFailure,
    LlmRuntime,
    Message,
    StreamChunk,
    ToolSchema,
    create_user_message,
)
from dsh_llm_deepseek import DeepSeekProvider
from dsh_llm_mock_server import MockServer
from dsh_llm_mock_server.testing import serve_model as serve_model

KEY = "sk-test-0123456789"


@dataclass
class Model:
    """The provider mounted against one server."""

    llm: LlmRuntime
    handle: Any

    async def options(
        self,
        *messages: Message,
        model: str = "deepseek-v4-flash",
        system: str = "",
        tools: tuple[ToolSchema, ...] = (),
        signal: AbortSignal | None = None,
        purpose: str = "loop",
        **config: Any,
    ) -> GenerateOptions:
        wanted = LlmCallConfig(provider="deepseek-official", model=model, **config)
        call = await self.llm.prepare_call(wanted)
        return GenerateOptions(
            config=call.config,
            messages=messages or (create_user_message("hi"),),
            system=system,
            tools=tools,
            signal=signal,
            purpose=purpose,  # type: ignore[arg-type]
        )

    async def ask(self, *messages: Message, **rest: Any) -> list[StreamChunk]:
        """All chunks of one request."""
        stream = self.llm.stream(await self.options(*messages, **rest))
        return [chunk async for chunk in stream]

    async def failure(self, *messages: Message, **rest: Any) -> LlmFailure:
        """The failure that one request ends with."""
        last = (await self.ask(*messages, **rest))[-1]
        assert isinstance(last, Finish)
        assert isinstance(last.reason, Failed)
        return last.reason.failure


@pytest.fixture
def key() -> str:
    return KEY


@pytest.fixture
async def root(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Context]:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    monkeypatch.delenv("DEEPSEEK_BASE_URL", raising=False)
    async with Context() as root:
        await root.plugin(LlmRuntime)
        yield root


@pytest.fixture
def mount(root: Context) -> Any:
    """Mounts the provider for a server or base URL, with any other configuration."""

    async def mount(
        server: MockServer | str | None, *, on: Context | None = None, **config: Any
    ) -> Model:
        ctx = root if on is None else on
        if server is not None:
            config["baseURL"] = server if isinstance(server, str) else server.base_url
        return Model(ctx[LLM], await ctx.plugin(DeepSeekProvider, config))

    return mount


@pytest.fixture
def model_options() -> Any:
    """A request without any provider mounted."""

    def options(*messages: Message) -> GenerateOptions:
        config = LlmCallConfig(provider="deepseek-official", model="m")
        return GenerateOptions(config=config, messages=messages)

    return options
