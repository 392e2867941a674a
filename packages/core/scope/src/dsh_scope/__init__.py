"""Scopes: registrations inherit down a chain of keys, events are admitted up."""

from __future__ import annotations

from ._chain import bind_scope_parent, scope_chain_of, scope_of, scope_parent_of, scope_target
from ._entries import AnonymousEntries, NamedEntries
from ._errors import ScopeError
from ._layers import ScopedLayers
from ._scope import Scope, create_scope

__all__ = (
    "AnonymousEntries",
    "NamedEntries",
    "Scope",
    "ScopeError",
    "ScopedLayers",
    "bind_scope_parent",
    "create_scope",
    "scope_chain_of",
    "scope_of",
    "scope_parent_of",
    "scope_target",
)
