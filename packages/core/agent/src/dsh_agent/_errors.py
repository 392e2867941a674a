"""Failures of the agent registry, its inboxes and its initiator scope."""

from __future__ import annotations

from dsh_cordis import CordisError


class AgentError(CordisError):
    """An agent could not be made, found or addressed; `code` says which rule was broken."""
