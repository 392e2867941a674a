"""Shell commands in bash on this machine."""

from __future__ import annotations

from ._config import BashConfig
from ._service import TIMEOUT_CODE, BashLocal

__all__ = ("TIMEOUT_CODE", "BashConfig", "BashLocal")
