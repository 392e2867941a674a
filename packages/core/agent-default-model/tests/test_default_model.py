"""The deployment's model."""

from __future__ import annotations

import pytest
from dsh_agent import ModelSelection
from dsh_agent_default_model import AGENT_DEFAULT_MODEL, AgentDefaultModel
from dsh_cordis import ConfigError, Context

pytestmark = pytest.mark.anyio

CONFIG = {"provider": "deepseek-official", "model": "deepseek-v4-flash"}


async def test_it_answers_with_what_is_configured():
    async with Context() as root:
        await root.plugin(AgentDefaultModel, CONFIG)
        assert root[AGENT_DEFAULT_MODEL].current_selection() == ModelSelection(**CONFIG)
        assert root[AGENT_DEFAULT_MODEL].expression_fields() == CONFIG


async def test_it_leaves_with_its_row():
    async with Context() as root:
        fiber = await root.plugin(AgentDefaultModel, CONFIG)
        await fiber.dispose()
        assert root.get(AGENT_DEFAULT_MODEL) is None


@pytest.mark.parametrize("missing", ["provider", "model"])
async def test_both_parts_are_required(missing):
    config = {key: value for key, value in CONFIG.items() if key != missing}
    async with Context() as root:
        with pytest.raises(ConfigError, match=missing):
            await root.plugin(AgentDefaultModel, config)


@pytest.mark.parametrize("part", ["provider", "model"])
async def test_neither_part_may_be_empty(part):
    async with Context() as root:
        with pytest.raises(ConfigError):
            await root.plugin(AgentDefaultModel, {**CONFIG, part: ""})
