"""The frozen environment a harness was launched with, and its .env files."""

from __future__ import annotations

from ._environment import (
    LAUNCH_ENVIRONMENT,
    EnvironmentFile,
    EnvironmentSource,
    EnvironmentValue,
    LaunchEnvironment,
    launch_environment_of,
)
from ._errors import LaunchEnvironmentError
from ._layers import load_layered_environment

__all__ = (
    "LAUNCH_ENVIRONMENT",
    "EnvironmentFile",
    "EnvironmentSource",
    "EnvironmentValue",
    "LaunchEnvironment",
    "LaunchEnvironmentError",
    "launch_environment_of",
    "load_layered_environment",
)
