"""Plugin kernel: contexts, typed services and events, fibers, effects."""

from ._abort import AbortController, AbortedError, AbortSignal
from ._errors import ConfigError, CordisError

__all__ = ("AbortController", "AbortSignal", "AbortedError", "ConfigError", "CordisError")
