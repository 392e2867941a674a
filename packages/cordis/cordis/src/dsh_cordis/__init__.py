"""Plugin kernel: contexts, typed services and events, fibers, effects."""

# More than a dozen names: this is the vocabulary that every plugin is written in.
from __future__ import annotations

from ._abort import AbortController, AbortedError, AbortSignal, FusedSignal
from ._config import NoConfig, validate_config
from ._context import Context
from ._effects import Effect, EffectInfo, EffectResult
from ._errors import ConfigError, CordisError, ServiceAccessError, ServiceExistsError
from ._failures import cancelled_from_outside, plugin_failure
from ._fiber import Fiber
from ._internal import Internal
from ._kernel import current_fiber
from ._keys import (
    Bail,
    Disposer,
    Emit,
    EventKey,
    Key,
    Next,
    NextSync,
    Parallel,
    Serial,
    ServiceKey,
    SyncWaterfall,
    Target,
    Waterfall,
)
from ._registry import Provided, Registry, Runtime
from ._service import Finding, Service, unwrap
from ._states import FiberState

__all__ = (
    "AbortController",
    "AbortSignal",
    "AbortedError",
    "Bail",
    "ConfigError",
    "Context",
    "CordisError",
    "Disposer",
    "Effect",
    "EffectInfo",
    "EffectResult",
    "Emit",
    "EventKey",
    "Fiber",
    "FiberState",
    "Finding",
    "FusedSignal",
    "Internal",
    "Key",
    "Next",
    "NextSync",
    "NoConfig",
    "Parallel",
    "Provided",
    "Registry",
    "Runtime",
    "Serial",
    "Service",
    "ServiceAccessError",
    "ServiceExistsError",
    "ServiceKey",
    "SyncWaterfall",
    "Target",
    "Waterfall",
    "cancelled_from_outside",
    "current_fiber",
    "plugin_failure",
    "unwrap",
    "validate_config",
)
