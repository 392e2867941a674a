"""Bundle of the one-shot, non-interactive run."""

from __future__ import annotations

from . import _runner as runner
from . import _startup as startup
from ._errors import HeadlessError
from ._startup import HEADLESS_STARTUP, StartupOptions

__all__ = ("HEADLESS_STARTUP", "HeadlessError", "StartupOptions", "runner", "startup")
