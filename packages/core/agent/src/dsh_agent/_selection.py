"""Which model an agent talks to, switchable between steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from dsh_system_prompt import SYSTEM_PROMPT_ASSEMBLE
from msgspec import UNSET

from ._events import AGENT_REQUEST

if TYPE_CHECKING:
    from collections.abc import Generator

    from dsh_cordis import Context, Disposer, Next
    from dsh_llm import LlmCallConfig
    from dsh_system_prompt import AssemblePayload, Assembly

    from ._events import RequestStep


class ModelSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A model and how hard it should think."""

    provider: str
    model: str
    reasoning_effort: str | None = None
    """None leaves it to the adapter."""


class SelectionState(msgspec.Struct):
    """What an agent's requests use: assign `current` at any time, the next step takes it up."""

    current: ModelSelection | None = None
    assembled: ModelSelection | None = None
    """What the latest prompt was assembled for, and so what its request uses."""


def install_model_selection(ctx: Context, state: SelectionState) -> Disposer:
    """Let `state` choose the model of the agent whose context `ctx` is.

    Each prompt samples `current`; its request uses that sample, so that prompt and request always
    name one model. Without a selection nothing is changed.
    """

    async def on_assemble(_payload: AssemblePayload, next_: Next[Assembly]) -> Assembly:
        chosen = state.current
        assembly = await next_()
        state.assembled = chosen
        if chosen is None:
            return assembly
        named = {"provider": chosen.provider, "model": chosen.model}
        return msgspec.structs.replace(assembly, variables={**assembly.variables, **named})

    async def on_request(_step: RequestStep, next_: Next[LlmCallConfig]) -> LlmCallConfig:
        config = await next_()
        chosen = state.assembled
        if chosen is None:
            return config
        return msgspec.structs.replace(
            config,
            provider=chosen.provider,
            model=chosen.model,
            reasoning_effort=chosen.reasoning_effort or UNSET,
        )

    def setup() -> Generator[Disposer, None, None]:
        yield ctx.on(SYSTEM_PROMPT_ASSEMBLE, on_assemble)
        yield ctx.on(AGENT_REQUEST, on_request)

    return ctx.effect(setup, "install_model_selection")
