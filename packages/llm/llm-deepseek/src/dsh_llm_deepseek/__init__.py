"""DeepSeek chat completions over HTTP and server-sent events."""

from __future__ import annotations

from ._adapter import DeepSeekAdapter
from ._config import PROVIDER, DeepSeekConfig, ModelEntry, Profile, resolve_profile
from ._plugin import DeepSeekProvider

__all__ = (
    "PROVIDER",
    "DeepSeekAdapter",
    "DeepSeekConfig",
    "DeepSeekProvider",
    "ModelEntry",
    "Profile",
    "resolve_profile",
)
