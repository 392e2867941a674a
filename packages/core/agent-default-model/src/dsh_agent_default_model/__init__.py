"""The model that agents use when nothing else chose one."""

from __future__ import annotations

from ._service import AGENT_DEFAULT_MODEL, AgentDefaultModel, AgentDefaultModelConfig

__all__ = ("AGENT_DEFAULT_MODEL", "AgentDefaultModel", "AgentDefaultModelConfig")
