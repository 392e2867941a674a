"""The deployment's choice of a model, for whoever makes agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from dsh_agent import ModelSelection
from dsh_cordis import Service, ServiceKey
from msgspec import Meta

if TYPE_CHECKING:
    from dsh_cordis import Context


class AgentDefaultModelConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Both are required: a deployment says which model it runs on."""

    provider: Annotated[
        str, Meta(min_length=1, description="Provider route, such as `deepseek-official`.")
    ]
    model: Annotated[str, Meta(min_length=1, description="Model id of that provider.")]


AGENT_DEFAULT_MODEL = ServiceKey["AgentDefaultModel"]("agent_default_model")


class AgentDefaultModel(Service):
    """Answers which model an agent without a selection of its own gets."""

    provides = AGENT_DEFAULT_MODEL
    Config: ClassVar[type | None] = AgentDefaultModelConfig
    name = "dsh-agent-default-model"

    def __init__(self, ctx: Context, config: AgentDefaultModelConfig) -> None:
        super().__init__(ctx, config)
        self._config = config

    def current_selection(self) -> ModelSelection:
        """The model to use now. No catalogue is asked whether it exists."""
        return ModelSelection(provider=self._config.provider, model=self._config.model)

    def expression_fields(self) -> Mapping[str, object]:
        """`provider` and `model`."""
        return {"provider": self._config.provider, "model": self._config.model}
