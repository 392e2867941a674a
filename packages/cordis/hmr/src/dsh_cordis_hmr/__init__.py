"""Reloads of plugins and configuration files as they are edited."""

from __future__ import annotations

from ._errors import HmrError
from ._hmr import Hmr
from ._keys import (
    CONFIG_UPDATE_FAILED,
    HMR,
    HMR_CHANGE,
    HMR_RELOAD,
    ConfigUpdateFailed,
    HmrConfig,
    Reloaded,
)

__all__ = (
    "CONFIG_UPDATE_FAILED",
    "HMR",
    "HMR_CHANGE",
    "HMR_RELOAD",
    "ConfigUpdateFailed",
    "Hmr",
    "HmrConfig",
    "HmrError",
    "Reloaded",
)
